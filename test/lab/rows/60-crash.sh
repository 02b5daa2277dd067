# SIGKILL at each step of coming up, on kernel ESP: no clear packet, and the state of a clean start afterwards.
# build: ./cmd/cygnetd ./cmd/ikectl ./test/interop
# tags: interop
# timeout: 400
interop '^TestKernelCrash$'
