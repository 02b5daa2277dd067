# IKE messages in fragments on kernel ESP, on links that drop IP fragments or large datagrams: strongSwan and Libreswan, both roles.
# build: ./cmd/cygnetd ./cmd/ikectl ./test/interop
# tags: interop
# timeout: 300
interop '^TestKernel(Libreswan)?Fragments$' -test.parallel 2
