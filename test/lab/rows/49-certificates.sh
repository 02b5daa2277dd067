# Certificates, raw keys and a key one way on kernel ESP: strongSwan and Libreswan, both roles, each kind of key and signature.
# build: ./cmd/cygnetd ./cmd/ikectl ./test/interop
# tags: interop
# timeout: 400
interop '^TestKernelCertificates$' -test.parallel 2
