# The lab's own network, with SAs made by iproute2: what the rows with daemons rely on.
. "$LAB/topo.sh"
topo_up
lan_ping lan-a $lan_b && result topology - "inner networks are apart" "FAIL: a clear ping arrived" || result topology - "inner networks are apart" ok
check topology - "gateways reach each other" in_ns gw-a ping -q -n -c 1 -W 5 $gw_b
check topology - "gateways reach each other, IPv6" in_ns gw-a ping -q -n -c 1 -W 5 $gw6_b

key=0x$(printf '11%.0s' {1..36})
sas() { # sas OUTER-A OUTER-B NET-A NET-B [ENCAP...]
  local n a=$1 b=$2 na=$3 nb=$4 in out; shift 4
  for n in gw-a gw-b; do
    ip -n $n xfrm state add src $a dst $b proto esp spi 0x1001 reqid 1 mode tunnel flag af-unspec aead 'rfc4106(gcm(aes))' $key 128 "$@" || return 1
    ip -n $n xfrm state add src $b dst $a proto esp spi 0x1002 reqid 1 mode tunnel flag af-unspec aead 'rfc4106(gcm(aes))' $key 128 "$@" || return 1
    out="src $na dst $nb" in="src $nb dst $na" o="src $a dst $b" i="src $b dst $a"
    [ $n = gw-a ] || { local t=$out; out=$in in=$t t=$o o=$i i=$t; }
    ip -n $n xfrm policy add $out dir out tmpl $o proto esp reqid 1 mode tunnel
    ip -n $n xfrm policy add $in dir in tmpl $i proto esp reqid 1 mode tunnel
    ip -n $n xfrm policy add $in dir fwd tmpl $i proto esp reqid 1 mode tunnel
  done
}
clear_sas() { local n; for n in gw-a gw-b; do ip -n $n xfrm state flush; ip -n $n xfrm policy flush; done; }
tunnel() { # tunnel FILTER TO SAS-ARGUMENT...
  local filter=$1 to=$2 rc; shift 2
  sas "$@" && wire_on gw-a /tmp/wire.pcap && lan_ping lan-a "$to"; rc=$?
  wire_off; clear_sas
  [ $rc = 0 ] && wire_only /tmp/wire.pcap "$filter"
}
check topology ip-xfrm "AES-GCM-256" tunnel esp $lan_b $gw_a $gw_b 10.1.0.0/16 10.2.0.0/16
check topology ip-xfrm "AES-GCM-256 IPv6" tunnel "ip6 proto 50" $lan6_b $gw6_a $gw6_b fd00:1::/32 fd00:2::/32
check topology ip-xfrm "AES-GCM-256 IPv4 in IPv6" tunnel "ip6 proto 50" $lan_b $gw6_a $gw6_b 10.1.0.0/16 10.2.0.0/16
check topology ip-xfrm "AES-GCM-256 IPv6 in IPv4" tunnel esp $lan6_b $gw_a $gw_b fd00:1::/32 fd00:2::/32
topo_nat a
nat_seen() { wire_on gw-b /tmp/nat.pcap; in_ns gw-a ping -q -n -c 1 -W 5 $gw_b; local rc=$?; wire_off; [ $rc = 0 ] && wire_only /tmp/nat.pcap "icmp and dst 203.0.113.1"; }
check topology - "NAT of gateway a" nat_seen
topo_down
