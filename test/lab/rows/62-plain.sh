# Plain ESP in userspace with a peer that never encapsulates: Libreswan, both roles.
# build: ./cmd/cygnetd ./cmd/ikectl ./test/interop
# tags: interop
# timeout: 240
interop '^TestKernelPlainESP$'
