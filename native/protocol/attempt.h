// Runs of ops that are no transaction: each op is tried, whatever becomes of the others.
#ifndef FAIRLEAD_PROTOCOL_ATTEMPT_H_
#define FAIRLEAD_PROTOCOL_ATTEMPT_H_

#include <cstdint>
#include <expected>
#include <functional>
#include <span>

#include "base/byte_buffer.h"
#include "base/system_error.h"
#include "protocol/record_reader.h"
#include "wire/pipeline.h"

namespace fairlead::protocol {

/** Writes the messages of op number `index` to the pipeline; on failure: what is wrong with it. */
using AttemptOp = std::function<std::expected<void, DecodeError>(
    const Record& record, std::uint32_t index, wire::Pipeline& pipeline)>;

/**
 * Tries each op of the buffer. The answer holds a record `failed` for each failure and `attempted`.
 * A SystemError means that nothing was sent; one that comes later is a failure of no op.
 */
std::expected<ByteBuffer, SystemError> AttemptAll(std::span<const std::uint8_t> ops,
                                                  wire::Pipeline& pipeline,
                                                  const AttemptOp& attempt);

}  // namespace fairlead::protocol

#endif  // FAIRLEAD_PROTOCOL_ATTEMPT_H_
