// Reads the kernel's notifications about changes of nf_tables (NFNLGRP_NFTABLES).
#ifndef FAIRLEAD_NFT_CHANGE_READER_H_
#define FAIRLEAD_NFT_CHANGE_READER_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "wire/attr_reader.h"

namespace fairlead::nft {

struct WatchedTable {
  std::uint8_t family = 0;
  std::string name;
  /** What the names of chains begin with that count, with their rules; empty = all chains do. */
  std::vector<std::string> chains = {};
};

/** The thread that committed a transaction. Empty and 0 = not known. */
struct Committer {
  /** NFTA_GEN_PROC_NAME: the name of the thread. */
  std::string program;
  /** NFTA_GEN_PROC_PID, in the initial PID namespace. */
  std::uint32_t pid = 0;
};

/**
 * Reads the datagrams. A transaction has a message for each object that was added, changed or
 * deleted, then NFT_MSG_NEWGEN, which names the committer.
 */
class ChangeReader {
 public:
  explicit ChangeReader(std::vector<WatchedTable> tables) noexcept : tables_(std::move(tables)) {}

  /** Reads a datagram. Ignores changes from the netlink port `own_port`; 0 = ignores none. */
  void Take(std::span<const std::uint8_t> datagram, std::uint32_t own_port);
  /** Counts as a change by an unknown committer, because messages were lost. */
  void TakeOverrun() noexcept;

  /** Whether a watched table has changed since the last call. */
  bool TakeChanged() noexcept { return std::exchange(changed_, false); }
  /** The committer of the last change. */
  const Committer& committer() const noexcept { return committer_; }

 private:
  bool IsWatched(const wire::Message& message) const noexcept;
  static bool IsOfChain(const WatchedTable& table, std::string_view chain) noexcept;
  void TakeGeneration(std::span<const std::uint8_t> attributes);

  std::vector<WatchedTable> tables_;
  /** Whether the current transaction has changed a watched table. */
  bool touched_ = false;
  bool changed_ = false;
  Committer committer_;
};

}  // namespace fairlead::nft

#endif  // FAIRLEAD_NFT_CHANGE_READER_H_
