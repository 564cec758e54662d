// Buffers whose records belong to several families.
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
 * Gives each run of records, consecutive ones of the same family, to that family. A record that no
 * family knows, or that is damaged, belongs to the run before it, whose family refuses it. The
 * first run with a failure is the last that is done. The answer holds those of the runs, with the
 * ops of their failures counted from the start of the buffer.
 *
 * A SystemError means that nothing of the buffer was done; one of a later run is a failure.
 */
std::expected<ByteBuffer, SystemError> RunInOrder(const Families& families,
                                                  std::span<const std::uint8_t> buffer);

}  // namespace fairlead::protocol

#endif  // FAIRLEAD_PROTOCOL_RUNS_H_
