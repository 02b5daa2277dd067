# IKE messages in fragments on kernel ESP, on links that drop IP fragments or large datagrams: strongSwan, both roles.
# build: ./cmd/cygnetd ./cmd/ikectl ./test/interop
# tags: interop
# timeout: 300
interop '^TestKernelFragments$'
