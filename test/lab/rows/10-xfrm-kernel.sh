# The kernel driver's tests where the kernel has ESP.
# build: ./xfrm/kernel
gotests kernel
