// SPDX-License-Identifier: Apache-2.0
// Chooses an endpoint when a process connects to a Service by TCP. An address that the maps do not
// have is left unchanged: the rules of the mode translate it.
//
// `node scripts/bpf.ts` compiles this file to programs.gen.h, which is committed.

#include <linux/bpf.h>
#include <linux/in.h>
#include <linux/types.h>

#include "layout.h"

#define INLINE static inline __attribute__((always_inline))
#define SECTION(name) __attribute__((section(name), used))

static void *(*const map_lookup)(void *map, const void *key) = (void *)BPF_FUNC_map_lookup_elem;
static long (*const map_update)(void *map, const void *key, const void *value, __u64 flags) =
    (void *)BPF_FUNC_map_update_elem;
static __u32 (*const random_number)(void) = (void *)BPF_FUNC_get_prandom_u32;
static __u64 (*const boot_time)(void) = (void *)BPF_FUNC_ktime_get_boot_ns;
static __u64 (*const netns_cookie)(void *context) = (void *)BPF_FUNC_get_netns_cookie;
static __u64 (*const socket_cookie)(void *context) = (void *)BPF_FUNC_get_socket_cookie;
static __u64 (*const ancestor_cgroup)(int level) = (void *)BPF_FUNC_get_current_ancestor_cgroup_id;

/* SOCK_STREAM of linux/net.h, which programs cannot include. */
enum { kStream = 1 };

/* Depths at which cgroups can be excluded; all processes are in the root (0). */
enum { kDepthMax = 16 };

/* The maps are made by the addon, which puts their descriptors where a program names one. */
struct map {
  __u32 unused;
};
struct map settings4 SECTION("maps"), frontends4 SECTION("maps"), endpoints4 SECTION("maps"),
    peers4 SECTION("maps"), counts4 SECTION("maps"), excluded4 SECTION("maps"),
    lease4 SECTION("maps");
struct map settings6 SECTION("maps"), frontends6 SECTION("maps"), endpoints6 SECTION("maps"),
    peers6 SECTION("maps"), counts6 SECTION("maps"), excluded6 SECTION("maps"),
    lease6 SECTION("maps");

/* The maps of one family. */
struct maps {
  void *settings;
  void *frontends;
  void *endpoints;
  void *peers;
  void *counts;
  void *excluded;
  void *lease;
};
#define MAPS4                                                                               \
  ((struct maps){&settings4, &frontends4, &endpoints4, &peers4, &counts4, &excluded4, &lease4})
#define MAPS6                                                                               \
  ((struct maps){&settings6, &frontends6, &endpoints6, &peers6, &counts6, &excluded6, &lease6})

INLINE int is_same(const struct endpoint *a, const struct endpoint *b) {
  const __u32 *left = a->address.words;
  const __u32 *right = b->address.words;
  return left[0] == right[0] && left[1] == right[1] && left[2] == right[2] &&
         left[3] == right[3] && a->port == b->port;
}

INLINE int is_same_pool(const struct pool_id *a, const struct pool_id *b) {
  return a->words[0] == b->words[0] && a->words[1] == b->words[1];
}

/* Whether the lease has not expired: an agent keeps the maps up to date. */
INLINE int is_leased(struct maps maps) {
  const __u32 zero = 0;
  const struct lease *lease = map_lookup(maps.lease, &zero);
  return lease && boot_time() < lease->end;
}

INLINE int is_on_node(struct bpf_sock_addr *context, const struct settings *settings) {
  return netns_cookie(context) == settings->node;
}

/* Writes the key of the frontend to `key`. */
INLINE const struct pool *find_pool(struct bpf_sock_addr *context, struct maps maps,
                                    const struct settings *settings, const struct endpoint *to,
                                    struct frontend *key) {
  *key = (struct frontend){to->address, to->port, IPPROTO_TCP, kAddressAndPort};
  const struct pool *pool = map_lookup(maps.frontends, key);
  if (pool) return pool;
  *key = (struct frontend){to->address, 0, 0, kAddress};
  const struct pool *at = map_lookup(maps.frontends, key);
  if (!at) return 0;
  const __u16 port = __builtin_bswap16(to->port);
  if (at->count) return at->ports[0] <= port && port <= at->ports[1] ? at : 0;
  if (at->node_only && !is_on_node(context, settings)) return 0;
  *key = (struct frontend){{}, to->port, IPPROTO_TCP, kNodePort};
  return map_lookup(maps.frontends, key);
}

/*
 * Finds an endpoint for `to`; 0: the address is left unchanged.
 *
 * An element may be deleted while it is read, and its memory be reused immediately: the kernel's
 * allocator does not wait for readers (htab_elem_free). So the value is used only if the key still
 * leads to the same value after reading.
 */
INLINE int choose(struct bpf_sock_addr *context, struct maps maps, const struct settings *settings,
                  const struct endpoint *to, struct counted *chosen) {
  const struct pool *pool = find_pool(context, maps, settings, to, &chosen->frontend);
  if (!pool) return 0;
  const struct pool_id id = pool->id;
  const __u32 count = pool->count;
  if (count == 0) return 0;
  const __u32 index = random_number() % count;
  const __u32 in_group = index % kGroupSize;
  const struct group_key group_key = {id, index / kGroupSize, 0};
  const struct group *group = map_lookup(maps.endpoints, &group_key);
  if (!group) return 0;
  chosen->endpoint = group->endpoints[in_group];
  if (chosen->endpoint.port == 0) return 0;

  const struct pool *same_pool = map_lookup(maps.frontends, &chosen->frontend);
  if (!same_pool || !is_same_pool(&same_pool->id, &id)) return 0;
  const struct group *same_group = map_lookup(maps.endpoints, &group_key);
  return same_group && is_same(&same_group->endpoints[in_group], &chosen->endpoint);
}

INLINE int add_one(struct maps maps, const struct counted *key) {
  __u64 *count = map_lookup(maps.counts, key);
  if (count) __sync_fetch_and_add(count, 1);
  return count != 0;
}

/* The connection is not counted if the map is full. */
INLINE void count(struct maps maps, const struct counted *key) {
  const __u64 one = 1;
  if (add_one(maps, key) || map_update(maps.counts, key, &one, BPF_NOEXIST) == 0) return;
  /* Another CPU may have added the element first. */
  add_one(maps, key);
}

/*
 * Whether the process is in an excluded cgroup. Until all of these are in the map, each process
 * outside the node's network namespace counts as excluded.
 */
INLINE int is_excluded(struct bpf_sock_addr *context, struct maps maps,
                       const struct settings *settings) {
  struct excluded key = {kAllExcluded};
  if (!map_lookup(maps.excluded, &key) && !is_on_node(context, settings)) return 1;
  for (int level = 1; level <= kDepthMax; ++level) {
    key.cgroup = ancestor_cgroup(level);
    if (key.cgroup == 0) return 0;
    if (map_lookup(maps.excluded, &key)) return 1;
  }
  return 0;
}

/* Like `choose`, for TCP only; also stores the choice for getpeername. */
INLINE int translate(struct bpf_sock_addr *context, struct maps maps, const struct endpoint *to,
                     struct endpoint *endpoint) {
  const __u32 zero = 0;
  if (context->type != kStream || context->protocol != IPPROTO_TCP) return 0;
  const struct settings *settings = map_lookup(maps.settings, &zero);
  if (!settings || (!settings->all && !is_on_node(context, settings))) return 0;
  if (!is_leased(maps)) return 0;
  struct counted chosen;
  if (!choose(context, maps, settings, to, &chosen)) return 0;
  if (settings->excludes && is_excluded(context, maps, settings)) return 0;
  if (settings->counts) count(maps, &chosen);
  if (chosen.frontend.kind == kAddress) chosen.endpoint.port = to->port;
  const __u64 cookie = socket_cookie(context);
  const struct peer peer = {*to, chosen.endpoint};
  map_update(maps.peers, &cookie, &peer, BPF_ANY);
  *endpoint = chosen.endpoint;
  return 1;
}

/* The address that the socket asked for, if `now` is the endpoint that replaced it; else 0. */
INLINE const struct endpoint *asked_for(struct bpf_sock_addr *context, struct maps maps,
                                        const struct endpoint *now) {
  const __u64 cookie = socket_cookie(context);
  const struct peer *peer = map_lookup(maps.peers, &cookie);
  return peer && is_same(&peer->endpoint, now) ? &peer->service : 0;
}

INLINE __u32 mapped_prefix(void) { return __builtin_bswap32(0xffff); }

INLINE int is_mapped(struct bpf_sock_addr *context) {
  return context->user_ip6[0] == 0 && context->user_ip6[1] == 0 &&
         context->user_ip6[2] == mapped_prefix();
}

INLINE struct endpoint read4(struct bpf_sock_addr *context) {
  const struct address address = {{0, 0, mapped_prefix(), context->user_ip4}};
  return (struct endpoint){address, (__u16)context->user_port, 0};
}

INLINE void write4(struct bpf_sock_addr *context, const struct endpoint *to) {
  context->user_ip4 = to->address.words[3];
  context->user_port = to->port;
}

INLINE struct endpoint read6(struct bpf_sock_addr *context) {
  const struct address address = {{context->user_ip6[0], context->user_ip6[1],
                                   context->user_ip6[2], context->user_ip6[3]}};
  return (struct endpoint){address, (__u16)context->user_port, 0};
}

INLINE void write6(struct bpf_sock_addr *context, const struct endpoint *to) {
  context->user_ip6[0] = to->address.words[0];
  context->user_ip6[1] = to->address.words[1];
  context->user_ip6[2] = to->address.words[2];
  context->user_ip6[3] = to->address.words[3];
  context->user_port = to->port;
}

INLINE void connect_by_ipv6(struct bpf_sock_addr *context, struct maps maps) {
  const struct endpoint to = read6(context);
  struct endpoint chosen;
  if (translate(context, maps, &to, &chosen)) write6(context, &chosen);
}

INLINE void peer_by_ipv6(struct bpf_sock_addr *context, struct maps maps) {
  const struct endpoint now = read6(context);
  const struct endpoint *service = asked_for(context, maps, &now);
  if (service) write6(context, service);
}

/* Programs of these types return 1: the system call continues. */

SECTION("cgroup/connect4") int connect4(struct bpf_sock_addr *context) {
  const struct endpoint to = read4(context);
  struct endpoint chosen;
  if (translate(context, MAPS4, &to, &chosen)) write4(context, &chosen);
  return 1;
}

/* An IPv6 socket that connects to an IPv4 address (::ffff:a.b.c.d). */
SECTION("cgroup/mapped4") int mapped4(struct bpf_sock_addr *context) {
  if (is_mapped(context)) connect_by_ipv6(context, MAPS4);
  return 1;
}

SECTION("cgroup/connect6") int connect6(struct bpf_sock_addr *context) {
  if (!is_mapped(context)) connect_by_ipv6(context, MAPS6);
  return 1;
}

SECTION("cgroup/peer4") int peer4(struct bpf_sock_addr *context) {
  const struct endpoint now = read4(context);
  const struct endpoint *service = asked_for(context, MAPS4, &now);
  if (service) write4(context, service);
  return 1;
}

SECTION("cgroup/mapped_peer4") int mapped_peer4(struct bpf_sock_addr *context) {
  if (is_mapped(context)) peer_by_ipv6(context, MAPS4);
  return 1;
}

SECTION("cgroup/peer6") int peer6(struct bpf_sock_addr *context) {
  if (!is_mapped(context)) peer_by_ipv6(context, MAPS6);
  return 1;
}
