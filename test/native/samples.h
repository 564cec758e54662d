// One example of everything that crosses the boundary: what the encoder reads, what the kernel
// could answer. Tests take them apart, fuzzers start from them.
#ifndef FAIRLEAD_TEST_NATIVE_SAMPLES_H_
#define FAIRLEAD_TEST_NATIVE_SAMPLES_H_

#include <string>
#include <vector>

#include "check.h"
#include "legacy/table.h"

namespace fairlead::test {

/** Records of every expression. */
Bytes EveryExpression();
/** A buffer with every op. */
Bytes EveryOp();
/** Each request in a buffer of its own. */
std::vector<Bytes> EveryRequest();

/**
 * Entries of a table of iptables-legacy: INPUT, whose rule jumps to KUBE-A, KUBE-A with a rule, and
 * KUBE-B.
 */
Bytes LegacyEntries(std::uint8_t family);
/** Where INPUT is among them. */
legacy::Hooks LegacyHooks(std::uint8_t family);

/** An op buffer `elementsAdd` with `count` entries of a key of 4 bytes and a value of 4. */
Bytes ManyElements(std::uint32_t count);

/** The netlink batch that `ops` is encoded to, or nothing when it is refused. */
Bytes Encoded(const Bytes& ops);
/**
 * A datagram as a dump answers: the messages of the batch that make things, numbered `sequence`,
 * and NLMSG_DONE.
 */
Bytes AsDump(const Bytes& batch, std::uint32_t sequence);

}  // namespace fairlead::test

#endif  // FAIRLEAD_TEST_NATIVE_SAMPLES_H_
