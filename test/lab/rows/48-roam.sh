# cygnet and strongSwan on kernel ESP: the initiator moves to another network, the NAT before it rebinds, two clients behind one NAT.
# build: ./cmd/cygnetd ./cmd/ikectl ./test/interop
# tags: interop
# timeout: 600
interop '^TestKernel(Roam|Rebind|TwoClients)$' -test.parallel 2
