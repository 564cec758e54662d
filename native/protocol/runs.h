// Runs buffers whose records belong to several families.
#ifndef FAIRLEAD_PROTOCOL_RUNS_H_
#define FAIRLEAD_PROTOCOL_RUNS_H_

#include <cstdint>
#include <expected>
#include <memory>
#include <span>
#include <vector>

#include "base/byte_buffer.h"
#include "base/system_error.h"
#include "protocol/family.h"

namespace fairlead::protocol {

using Families = std::vector<std::unique_ptr<Family>>;

/**
 * Splits the buffer into runs, which are consecutive records of one family, and gives each run to
 * its family. A record that is malformed, or that no family knows, belongs to the run before it,
 * and that family refuses it. Runs behind the first one with a failure are not done. The answer
 * holds the answers of the runs. Op indices in it count from the start of the buffer.
 *
 * A SystemError means that nothing of the buffer was done. In a later run it becomes a record
 * `failed`.
 */
std::expected<ByteBuffer, SystemError> RunInOrder(const Families& families,
                                                  std::span<const std::uint8_t> buffer);

}  // namespace fairlead::protocol

#endif  // FAIRLEAD_PROTOCOL_RUNS_H_
