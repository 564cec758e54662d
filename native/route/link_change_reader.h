// Reads the kernel's notifications about links (RTNLGRP_LINK).
#ifndef FAIRLEAD_ROUTE_LINK_CHANGE_READER_H_
#define FAIRLEAD_ROUTE_LINK_CHANGE_READER_H_

#include <cstdint>
#include <span>
#include <utility>

#include "nft/change_reader.h"

namespace fairlead::route {

/** Finds out whether links came, went or changed. The kernel does not say who changed them. */
class LinkChangeReader {
 public:
  /** Reads a datagram. `own_port` counts for nothing: links are never changed by their watcher. */
  void Take(std::span<const std::uint8_t> datagram, std::uint32_t own_port) noexcept;
  /** Counts as a change, because messages were lost. */
  void TakeOverrun() noexcept { changed_ = true; }

  /** Whether a link has changed since the last call. */
  bool TakeChanged() noexcept { return std::exchange(changed_, false); }
  nft::Committer committer() const noexcept { return {}; }

 private:
  bool changed_ = false;
};

}  // namespace fairlead::route

#endif  // FAIRLEAD_ROUTE_LINK_CHANGE_READER_H_
