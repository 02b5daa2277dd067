# Certificates that are refused, on kernel ESP: Libreswan, both roles; what people read of it, and what Libreswan makes of it.
# build: ./cmd/cygnetd ./cmd/ikectl ./test/interop
# tags: interop
# timeout: 400
interop '^TestKernelCertificateFaults$' -test.parallel 2
