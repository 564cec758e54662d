#ifndef FAIRLEAD_NFT_WALK_CHECK_H_
#define FAIRLEAD_NFT_WALK_CHECK_H_

#include <cstdint>
#include <vector>

#include "nft/packed_entries.h"

namespace fairlead::nft {

/**
 * Notices dumps of a set that miss elements although nothing changed. For each part of a dump the
 * kernel walks the set from its start and skips as many elements as it has given already
 * (nft_rhash_walk). When the table is resized in between, which happens in the background after
 * many elements were added, the order differs: some elements come twice and as many never, without
 * NLM_F_DUMP_INTR. A missed one therefore always shows in another that comes twice.
 */
class WalkCheck {
 public:
  void Take(const Entry& entry);
  /** Whether an element came twice. May be asked once, at the end. */
  bool Disturbed();

 private:
  /** 64 bits for each element: that two of a million collide by chance is one in 30 millions. */
  std::vector<std::uint64_t> hashes_;
};

}  // namespace fairlead::nft

#endif  // FAIRLEAD_NFT_WALK_CHECK_H_
