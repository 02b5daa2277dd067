# The same collisions with Libreswan, whose own limits the rows count.
# build: ./cmd/cygnetd ./cmd/ikectl ./test/interop
# tags: interop
# timeout: 3600
# cpus: 2
interop '^TestKernelLibreswan(Collision|Start)$' -test.parallel 5
