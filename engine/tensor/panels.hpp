// How rows are cut into panels.
#pragma once

#include <cstddef>
#include <cstdint>

namespace heed {

/// Rows side by side in the lanes of a few vectors.
struct PanelRows {
  std::int64_t first;  ///< row
  std::size_t rows;
  std::size_t vectors;
  std::size_t pitch;  ///< lanes of all vectors: numbers from one line of the panel to the next

  static PanelRows of(std::int64_t first, std::int64_t rows, std::uint32_t lanes) {
    const auto count = static_cast<std::size_t>(rows);
    const std::size_t vectors = (count + lanes - 1) / lanes;
    return {first, count, vectors, vectors * lanes};
  }
};

/// All panels but the last are full. If the last would hold one vector only, which is slow, the
/// last two hold two vectors each. Every panel but the last fills its vectors.
class PanelCut {
 public:
  PanelCut(std::int64_t rows, std::int64_t panel_rows, std::int64_t lanes)
      : rows_(rows), panel_rows_(panel_rows), full_(rows / panel_rows) {
    const std::int64_t rest = rows - full_ * panel_rows;
    panels_ = full_ + (rest > 0 ? 1 : 0);
    moved_ = full_ > 0 && rest > 0 && rest <= lanes ? panel_rows - 2 * lanes : 0;
    padded_ = (rows + lanes - 1) / lanes * lanes;
  }

  std::int64_t panels() const { return panels_; }

  /// Rows that the panels have room for.
  std::int64_t padded() const { return padded_; }

  /// The first row of panel p; the number of rows for the panel after the last.
  std::int64_t begin(std::int64_t p) const {
    if (p >= panels_) return rows_;
    return p * panel_rows_ - (p == full_ ? moved_ : 0);
  }

 private:
  std::int64_t rows_, panel_rows_, full_;
  std::int64_t panels_;
  std::int64_t moved_;  ///< rows that the last panel takes from the one before
  std::int64_t padded_;
};

/// Rows of several items, cut item by item: no panel holds rows of two.
class ItemCut {
 public:
  ItemCut(std::int64_t items, std::int64_t rows, std::int64_t panel_rows, std::int64_t lanes)
      : items_(items), rows_(rows), cut_(rows, panel_rows, lanes) {}

  std::int64_t panels() const { return items_ * cut_.panels(); }

  struct RowSpan {
    std::int64_t first;   ///< row, numbered through the items
    std::int64_t rows;    ///< of the panel
    std::int64_t before;  ///< rows that the panels before it have room for
  };
  RowSpan at(std::int64_t p) const {
    const std::int64_t item = p / cut_.panels();
    const std::int64_t begin = cut_.begin(p % cut_.panels());
    const std::int64_t end = cut_.begin(p % cut_.panels() + 1);
    return {item * rows_ + begin, end - begin, item * cut_.padded() + begin};
  }

 private:
  std::int64_t items_, rows_;
  PanelCut cut_;
};

}  // namespace heed
