// How rows are cut into panels.
#pragma once

#include <cstdint>

namespace heed {

/// Panels are full but the last; if that would hold one vector only, which computes slowly, the
/// last two hold two vectors each. Every panel but the last fills its vectors.
class PanelCut {
 public:
  PanelCut(std::int64_t rows, std::int64_t panel_rows, std::int64_t lanes)
      : rows_(rows), panel_rows_(panel_rows), full_(rows / panel_rows) {
    const std::int64_t rest = rows - full_ * panel_rows;
    panels_ = full_ + (rest > 0 ? 1 : 0);
    moved_ = full_ > 0 && rest > 0 && rest <= lanes ? panel_rows - 2 * lanes : 0;
  }

  std::int64_t panels() const { return panels_; }

  /// The first row of panel p; of the one after the last, the number of rows.
  std::int64_t begin(std::int64_t p) const {
    if (p >= panels_) return rows_;
    return p * panel_rows_ - (p == full_ ? moved_ : 0);
  }

 private:
  std::int64_t rows_, panel_rows_, full_;
  std::int64_t panels_;
  std::int64_t moved_;  ///< rows that the last panel takes from the one before
};

}  // namespace heed
