# Staying up on kernel ESP, against strongSwan: rekeys of the child and of the IKE SA started by either side, in both roles.
# build: ./cmd/cygnetd ./cmd/ikectl ./test/interop
# tags: interop
# timeout: 400
interop '^TestKernelStrongSwanRekey$'
