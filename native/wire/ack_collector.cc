#include "wire/ack_collector.h"

#include <linux/netlink.h>

#include <algorithm>
#include <cerrno>

#include "base/system_error.h"
#include "wire/byte_order.h"

namespace fairlead::wire {

namespace {

/** The attributes of NLM_F_ACK_TLVS. They follow the refused message; CAP_ACK cuts its payload. */
std::span<const std::uint8_t> ExtendedAck(const Message& message) noexcept {
  if ((message.flags & NLM_F_ACK_TLVS) == 0) return {};
  std::size_t skipped = 4;
  if (message.type == NLMSG_ERROR) {
    if (message.payload.size() < 4 + NLMSG_HDRLEN) return {};
    const bool capped = (message.flags & NLM_F_CAPPED) != 0;
    const std::size_t refused = LoadHost<std::uint32_t>(message.payload.data() + 4);
    skipped += capped ? std::size_t{NLMSG_HDRLEN} : (refused + 3) & ~std::size_t{3};
  }
  return skipped <= message.payload.size() ? message.payload.subspan(skipped)
                                           : std::span<const std::uint8_t>{};
}

}  // namespace

Answer ReadAnswer(const Message& message) {
  Answer answer;
  // NLMSG_DONE of old kernels may lack the status. The dump was complete then.
  if (message.payload.size() < 4) {
    if (message.type == NLMSG_ERROR) answer = {EPROTO, "a truncated answer", std::nullopt};
    return answer;
  }
  const std::int32_t status = LoadHost<std::int32_t>(message.payload.data());
  if (status >= 0) return answer;
  // A kernel error is in -4095..-1. Other negative numbers may overflow when they are negated.
  answer.error = status < -4095 ? EPROTO : -status;
  const AttrTable<NLMSGERR_ATTR_MAX> attributes(ExtendedAck(message));
  answer.words = attributes.Has(NLMSGERR_ATTR_MSG)
                     ? std::string(attributes.String(NLMSGERR_ATTR_MSG))
                     : ErrorText(answer.error);
  if (attributes.Has(NLMSGERR_ATTR_OFFS)) answer.offset = attributes.U32Host(NLMSGERR_ATTR_OFFS);
  return answer;
}

void AckCollector::Take(std::span<const std::uint8_t> datagram) {
  MessageReader reader(datagram);
  while (const auto message = reader.Next()) {
    if (message->type == NLMSG_ERROR) TakeAnswer(*message);
  }
}

void AckCollector::TakeAnswer(const Message& message) {
  const std::uint32_t index = message.sequence - first_;
  if (index >= count_) return;
  Answer answer = ReadAnswer(message);
  if (answer.error == 0) {
    acknowledged_.push_back(index);
    return;
  }
  refusals_.push_back({index, answer.error, std::move(answer.words), answer.offset});
}

bool AckCollector::Answered(std::uint32_t index) const noexcept {
  return std::find(acknowledged_.begin(), acknowledged_.end(), index) != acknowledged_.end() ||
         std::any_of(refusals_.begin(), refusals_.end(),
                     [index](const Refusal& refusal) { return refusal.message == index; });
}

}  // namespace fairlead::wire
