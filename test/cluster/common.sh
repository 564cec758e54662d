# shellcheck shell=sh
# What scripts/test-rollout and scripts/test-stranger share: a cluster with kube-proxy as kubeadm
# sets it up, and traffic through a ClusterIP, node ports and the address of a load balancer.
# Sourced in the root of the repository, with $KUBECTL, $CLIENT, $API_SERVER, $CLUSTER_CIDR,
# $KUBE_PROXY_IMAGE, $FAIRLEAD_IMAGE and $PROXY_MODE set, and $work an empty folder.

client=
trap '[ -z "$client" ] || kill "$client" 2>/dev/null' EXIT

k() { $KUBECTL "$@"; }
say() { echo "$(date +%T) $*"; }
fail() {
  say "FAILED: $* (see $work)" >&2
  exit 1
}
fill() {
  sed -e "s|FAIRLEAD_IMAGE|$FAIRLEAD_IMAGE|; s|KUBE_PROXY_IMAGE|$KUBE_PROXY_IMAGE|" \
    -e "s|API_SERVER|$API_SERVER|; s|CLUSTER_CIDR|$CLUSTER_CIDR|; s|PROXY_MODE|$PROXY_MODE|" \
    -e "s|CLUSTER_IP|${cluster_ip:-}|" "$1"
}
# rolled_out NAMESPACE KIND/NAME: waits for the rollout and prints its time.
rolled_out() {
  began=$(date +%s)
  k -n "$1" rollout status "$2" --timeout=300s >/dev/null || fail "$2 did not roll out"
  say "$2 rolled out in $(($(date +%s) - began)) s"
}
eventually() {
  what=$1 tries=120
  shift
  until "$@" >/dev/null 2>&1; do
    [ $((tries -= 1)) -gt 0 ] || fail "not within a minute: $what"
    sleep 0.5
  done
}
of_service() { k -n rollout get service web -o jsonpath="$1"; }
has_address() { [ -n "$(of_service '{.status.loadBalancer.ingress[0].ip}')" ]; }

start_kube_proxy() {
  fill test/cluster/kube-proxy.yaml | k apply -f - >/dev/null
  rolled_out kube-system ds/kube-proxy
}

# Servers, a client on each node, and one outside of the cluster.
start_traffic() {
  k create namespace rollout --dry-run=client -o yaml | k apply -f - >/dev/null
  k -n rollout create configmap load --from-file=test/cluster/load.mjs --dry-run=client -o yaml |
    k apply -f - >/dev/null
  fill test/cluster/traffic.yaml | k apply -f - >/dev/null
  eventually 'the load balancer has an address' has_address
  cluster_ip=$(of_service '{.spec.clusterIP}')
  balanced="http://$(of_service '{.status.loadBalancer.ingress[0].ip}')/"
  fill test/cluster/traffic.yaml | k apply -f - >/dev/null
  rolled_out rollout deploy/web
  rolled_out rollout ds/client
  addresses=$(k get nodes -o jsonpath='{range .items[*]}{.status.addresses[0].address}{" "}{end}')
  urls=
  for address in $addresses; do urls="$urls http://$address:30080/ $balanced"; done
  eventually 'the Service answers from outside' $CLIENT node -e "fetch('$balanced')"
  # The first client pods were made before the address and all endpoints were known.
  k -n rollout delete pods -l app=client >/dev/null
  rolled_out rollout ds/client
  # shellcheck disable=SC2086 # words
  $CLIENT node test/cluster/load.mjs ask 80 $urls >"$work/outside" 2>"$work/outside.err" &
  client=$!
}

# Ends the traffic, replaces all endpoints, and fails if a connection failed, also after that: rules
# that Fairlead has left behind would send connections to the old endpoints.
end_traffic() {
  kill "$client"
  client=
  for pod in $(k -n rollout get pods -l app=client -o name); do
    k -n rollout logs "$pod" --tail=1 >"$work/${pod#pod/}"
    k -n rollout logs "$pod" >"$work/${pod#pod/}.log"
  done
  k -n rollout rollout restart deploy/web >/dev/null
  rolled_out rollout deploy/web
  sleep 5
  # shellcheck disable=SC2086
  $CLIENT timeout 20 node test/cluster/load.mjs ask 80 $urls >"$work/afterwards" 2>>"$work/outside.err" || :
  bad=0
  for file in "$work"/client-*[!g] "$work/outside" "$work/afterwards"; do
    echo "$(basename "$file"): $(tail -n 1 "$file")"
    tail -n 1 "$file" | grep -q '"failures":{}' || bad=1
  done
  [ "$bad" = 0 ] || fail 'connections failed'
  k delete namespace rollout >/dev/null
}
