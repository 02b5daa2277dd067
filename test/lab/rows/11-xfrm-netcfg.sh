# build: ./xfrm/netcfg
gotests netcfg
