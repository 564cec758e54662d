// What the kernel tells everyone about changes of nf_tables (NFNLGRP_NFTABLES).
#ifndef FAIRLEAD_NFT_CHANGE_READER_H_
#define FAIRLEAD_NFT_CHANGE_READER_H_

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "wire/attr_reader.h"

namespace fairlead::nft {

struct WatchedTable {
  std::uint8_t family = 0;
  std::string name;
};

/** Who committed, as the kernel names the thread that did; both empty = not known. */
struct Committer {
  std::string program;
  /** In the initial PID namespace. */
  std::uint32_t pid = 0;
};

/**
 * Takes the datagrams. A transaction is a message for each object that it made, changed or deleted,
 * and then one NFT_MSG_NEWGEN that says who committed it.
 */
class ChangeReader {
 public:
  explicit ChangeReader(std::vector<WatchedTable> tables) noexcept : tables_(std::move(tables)) {}

  /** Changes from the netlink port `own_port` do not count; 0 = all count. */
  void Take(std::span<const std::uint8_t> datagram, std::uint32_t own_port);
  /** Messages were lost: anything may have happened. */
  void TakeOverrun() noexcept;

  /** Whether anything of the tables has changed since this was last asked. */
  bool TakeChanged() noexcept { return std::exchange(changed_, false); }
  /** Who made the last of these changes. */
  const Committer& committer() const noexcept { return committer_; }

 private:
  bool IsWatched(const wire::Message& message) const noexcept;
  void TakeGeneration(std::span<const std::uint8_t> attributes);

  std::vector<WatchedTable> tables_;
  /** The transaction whose messages come has changed something. */
  bool touched_ = false;
  bool changed_ = false;
  Committer committer_;
};

}  // namespace fairlead::nft

#endif  // FAIRLEAD_NFT_CHANGE_READER_H_
