# shellcheck shell=sh
# What scripts/test-rollout and scripts/test-stranger share: a cluster with kube-proxy as kubeadm
# sets it up, and traffic through a ClusterIP, node ports and the address of a load balancer.
# Sourced in the root of the repository, with $KUBECTL, $CLIENT, $API_SERVER, $CLUSTER_CIDR,
# $KUBE_PROXY_IMAGE, $FAIRLEAD_IMAGE and $PROXY_MODE set, and $work an empty folder.

# Processes that end with this one.
background=
# shellcheck disable=SC2086 # words
trap '[ -z "$background" ] || kill $background 2>/dev/null || :' EXIT

k() { $KUBECTL "$@"; }
say() { echo "$(date +%T) $*"; }
fail() {
  say "FAILED: $* (see $work)" >&2
  exit 1
}
fill() {
  sed -e "s|FAIRLEAD_IMAGE|$FAIRLEAD_IMAGE|; s|KUBE_PROXY_IMAGE|$KUBE_PROXY_IMAGE|" \
    -e "s|API_SERVER|$API_SERVER|; s|CLUSTER_CIDR|$CLUSTER_CIDR|; s|PROXY_MODE|$PROXY_MODE|" \
    -e "s|CLUSTER_IP|${cluster_ip:-}|; s|CONNECT_TIME|${CONNECT_TIME:-off}|" "$1" |
    if [ -n "${CONNECT_TIME:-}" ]; then cat; else grep -v connectTime; fi
}
# rolled_out NAMESPACE KIND/NAME: waits for the rollout and prints its time.
rolled_out() {
  began=$(date +%s)
  k -n "$1" rollout status "$2" --timeout=300s >/dev/null || fail "$2 did not roll out"
  say "$2 rolled out in $(($(date +%s) - began)) s"
}
# eventually SECONDS WHAT COMMAND...
eventually() {
  until_second=$(($(date +%s) + $1)) what="$2, within $1 s"
  shift 2
  until "$@" >/dev/null 2>&1; do
    [ "$(date +%s)" -lt "$until_second" ] || fail "not so: $what"
    sleep 0.5
  done
}
of_service() { k -n rollout get service web -o jsonpath="$1"; }
has_address() { [ -n "$(of_service '{.status.loadBalancer.ingress[0].ip}')" ]; }

start_kube_proxy() {
  fill test/cluster/kube-proxy.yaml | k apply -f - >/dev/null
  rolled_out kube-system ds/kube-proxy
}

# Servers, two clients on each node, in a pod's network and in the node's, and one outside of the
# cluster. The last one begins after `before_load`, which a test may replace.
before_load() { :; }
start_traffic() {
  k create namespace rollout --dry-run=client -o yaml | k apply -f - >/dev/null
  k -n rollout create configmap load --from-file=test/cluster/load.mjs --dry-run=client -o yaml |
    k apply -f - >/dev/null
  fill test/cluster/traffic.yaml | k apply -f - >/dev/null
  eventually 60 'the load balancer has an address' has_address
  cluster_ip=$(of_service '{.spec.clusterIP}')
  balanced="http://$(of_service '{.status.loadBalancer.ingress[0].ip}')/"
  fill test/cluster/traffic.yaml | k apply -f - >/dev/null
  rolled_out rollout deploy/web
  rolled_out rollout ds/client
  rolled_out rollout ds/client-on-node
  addresses=$(k get nodes -o jsonpath='{range .items[*]}{.status.addresses[0].address}{" "}{end}')
  urls=
  for address in $addresses; do urls="$urls http://$address:30080/ $balanced"; done
  eventually 60 'the Service answers from outside' $CLIENT node -e "fetch('$balanced')"
  # The first client pods were made before the address and all endpoints were known.
  k -n rollout delete pods -l app=client >/dev/null
  rolled_out rollout ds/client
  rolled_out rollout ds/client-on-node
  before_load
  # shellcheck disable=SC2086 # words
  $CLIENT node test/cluster/load.mjs ask 80 $urls >"$work/outside" 2>"$work/outside.err" &
  client=$!
  background="$background $client"
}

# Ends the traffic, replaces all endpoints, and returns 1 if a connection failed, also after that: rules
# that Fairlead has left behind would send connections to the old endpoints. Where connections from
# outside failed, `explained COUNTS...` may say that somebody else did it.
explained() { false; }
end_traffic() {
  kill "$client"
  for pod in $(k -n rollout get pods -l app=client -o name); do
    k -n rollout logs "$pod" >"$work/${pod#pod/}.log"
    grep '"asked"' "$work/${pod#pod/}.log" | tail -n 1 >"$work/${pod#pod/}.counts"
  done
  k -n rollout rollout restart deploy/web >/dev/null
  rolled_out rollout deploy/web
  sleep 5
  # shellcheck disable=SC2086
  $CLIENT node test/cluster/load.mjs ask 80 $urls >"$work/afterwards" 2>>"$work/outside.err" &
  client=$!
  background="$background $client"
  eventually 120 'the client outside has 1000 answers' has_answered 1000 "$work/afterwards"
  kill "$client"
  bad=0
  for file in "$work"/client-*.counts "$work/outside" "$work/afterwards"; do
    echo "$(basename "$file"): $(tail -n 1 "$file")"
    none_failed "$file" || case $file in *.counts) bad=1 ;; esac
  done
  if ! none_failed "$work/outside" || ! none_failed "$work/afterwards"; then
    explained "$work/outside" "$work/afterwards" || bad=1
  fi
  k delete namespace rollout >/dev/null
  [ "$bad" = 0 ]
}
has_answered() { [ "$(tail -n 1 "$2" | sed 's/.*"answered":\([0-9]*\).*/\1/')" -ge "$1" ]; }
none_failed() { tail -n 1 "$1" | grep -q '"failures":{}'; }
