# strongSwan and Libreswan on kernel ESP: rekeys of the child and of the IKE SA by either side, in both roles, and by octets and packets, none lost.
# build: ./cmd/cygnetd ./cmd/ikectl ./test/interop
# tags: interop
# timeout: 600
interop '^TestKernel((StrongSwan|Libreswan)Rekey|Lifetime)$' -test.parallel 2
