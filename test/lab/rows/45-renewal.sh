# strongSwan on kernel ESP: reauthentication, by either side, in both roles.
# build: ./cmd/cygnetd ./cmd/ikectl ./test/interop
# tags: interop
# timeout: 400
interop '^TestKernelRenewal$'
