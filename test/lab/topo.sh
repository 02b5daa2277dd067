# topo.sh - the lab's network; source it in a row.
#
#   lan-a 10.1.0.2 --- 10.1.0.1 gw-a 192.0.2.1 --- 192.0.2.254 wan 198.51.100.254 --- 198.51.100.7 gw-b 10.2.0.1 --- 10.2.0.2 lan-b
#         fd00:1::2    fd00:1::1     2001:db8:a::1            2001:db8:b::7                 fd00:2::1    fd00:2::2
#
# Each name is a network namespace; a gateway's links are "lan" and "wan", the wan's are "to-a" and "to-b". The gateways forward, and the
# wan knows no inner network: what is not in a tunnel does not arrive.
gw_a=192.0.2.1 gw_b=198.51.100.7 lan_a=10.1.0.2 lan_b=10.2.0.2
gw6_a=2001:db8:a::1 gw6_b=2001:db8:b::7 lan6_a=fd00:1::2 lan6_b=fd00:2::2
topo="lan-a gw-a wan gw-b lan-b"

in_ns() { ip netns exec "$@"; }

# topo_link NS1 LINK1 V4 V6 NS2 LINK2 V4 V6 : a wire with an address of each family at both ends.
topo_link() {
  ip link add "$2" netns "$1" type veth peer name "$6" netns "$5"
  ip -n "$1" addr add "$3" dev "$2"; ip -n "$1" addr add "$4" dev "$2" nodad; ip -n "$1" link set "$2" up
  ip -n "$5" addr add "$7" dev "$6"; ip -n "$5" addr add "$8" dev "$6" nodad; ip -n "$5" link set "$6" up
}

topo_up() {
  local n
  for n in $topo; do ip netns add $n; ip -n $n link set lo up; done
  for n in gw-a wan gw-b; do in_ns $n sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1 net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.default.rp_filter=0; done
  topo_link lan-a lan 10.1.0.2/24 fd00:1::2/64 gw-a lan 10.1.0.1/24 fd00:1::1/64
  topo_link gw-a wan 192.0.2.1/24 2001:db8:a::1/64 wan to-a 192.0.2.254/24 2001:db8:a::fe/64
  topo_link wan to-b 198.51.100.254/24 2001:db8:b::fe/64 gw-b wan 198.51.100.7/24 2001:db8:b::7/64
  topo_link gw-b lan 10.2.0.1/24 fd00:2::1/64 lan-b lan 10.2.0.2/24 fd00:2::2/64
  topo_default lan-a 10.1.0.1 fd00:1::1; topo_default gw-a 192.0.2.254 2001:db8:a::fe
  topo_default gw-b 198.51.100.254 2001:db8:b::fe; topo_default lan-b 10.2.0.1 fd00:2::1
}
topo_default() { ip -n "$1" route add default via "$2"; ip -n "$1" route add default via "$3"; }
topo_down() { local n; for n in $topo; do ip netns del $n 2>/dev/null; done; }

# topo_nat SIDE : from now on the wan translates what gateway a or b sends; 203.0.113.1 is the address that the other side sees.
topo_nat() {
  local other=b; [ "$1" = a ] || other=a
  ip -n wan addr add 203.0.113.1/32 dev lo
  in_ns wan nft -f - <<N
table ip nat { chain post { type nat hook postrouting priority 100; oifname "to-$other" ip saddr { $gw_a, $gw_b } snat to 203.0.113.1; }; }
N
}

# wire_on NS FILE : records what leaves NS by its link wan, until wire_off. Linux shows a decrypted packet once more on its way in:
# only the way out is evidence.
wire_on() {
  : >"$2.err"
  # exec: wire_pid must be tcpdump's own
  { exec ip netns exec "$1" tcpdump -Z root -Q out --immediate-mode -Uni wan -w "$2" ip or ip6 2>"$2.err"; } & wire_pid=$!
  until grep -q listening "$2.err"; do kill -0 $wire_pid 2>/dev/null || { cat "$2.err"; return 1; }; sleep 0.05; done
}
wire_off() { kill $wire_pid; wait $wire_pid 2>/dev/null; }

# wire_count FILE FILTER : how many recorded packets match.
wire_count() { tcpdump -nr "$1" "$2" 2>/dev/null | wc -l; }

# wire_only FILE FILTER : at least one recorded packet matches, and none does not (neighbour discovery aside).
wire_only() {
  local n; n=$(wire_count "$1" "$2")
  [ "$n" -gt 0 ] && [ "$(wire_count "$1" "not ($2) and not (icmp6 and ip6[40] >= 133 and ip6[40] <= 137) and not (ip6[6] = 0)")" = 0 ] && return
  echo "the wire: $n packets match $2; the others:"; tcpdump -nr "$1" "not ($2)" 2>/dev/null | head; return 1
}

# lan_ping FROM ADDRESS : three pings from a LAN host, all answered.
lan_ping() { local n; for n in 1 2 3; do in_ns "$1" ping -q -n -c 1 -W 5 "$2" || return; done; }

# wait_until SECONDS COMMAND... : until COMMAND succeeds.
wait_until() {
  local end=$(($(date +%s) + $1)); shift
  until "$@" >/dev/null 2>&1; do [ "$(date +%s)" -lt $end ] || { echo "waited for: $*"; return 1; }; sleep 0.1; done
}
