# start = traffic after a restart: no larval SA of an earlier process keeps the connection down.
# build: ./cmd/cygnetd ./cmd/ikectl ./test/interop
# tags: interop
# timeout: 200
interop '^TestKernelTraffic$'
