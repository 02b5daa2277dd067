# What the rows of suites do not show, on kernel ESP: the connection of the peer's identity, further children, closed in every failure.
# build: ./cmd/cygnetd ./cmd/ikectl ./test/interop
# tags: interop
# timeout: 300
interop '^TestKernel(Chosen|Children|FailClosed)$'
