# cygnet and strongSwan on kernel ESP: a laptop is suspended and returns, and its gateway holds the IKE SA or has given it up; a gateway loses the first of its two addresses.
# build: ./cmd/cygnetd ./cmd/ikectl ./test/interop
# tags: interop
# timeout: 400
interop '^TestKernel(Suspend|SecondAddress)$' -test.parallel 8
