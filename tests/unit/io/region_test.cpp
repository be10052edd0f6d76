// Regions against their definition: every element one by one.
#include "io/region.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "unit/io/synthetic_state.hpp"

namespace llmtrain::io {
namespace {

// A random region of a shape, empty now and then.
Region random_region(const Shape& shape, std::mt19937& draw) {
  std::vector<index_t> offset, extent;
  for (int dim = 0; dim < shape.rank(); ++dim) {
    const auto size = static_cast<std::uint32_t>(shape[dim]);
    const bool whole = draw() % 2 == 0;
    offset.push_back(whole ? 0 : draw() % size);
    extent.push_back(whole ? shape[dim] : 1 + draw() % (size - offset.back()));
  }
  Region region{shape, {make_shape(offset), make_shape(extent)}, 0, 0};
  const auto count = static_cast<std::uint32_t>(region.box.extent.count());
  region.begin = draw() % count;
  region.end =
      region.begin + draw() % (count - static_cast<std::uint32_t>(region.begin) + 1);
  return region;
}

// Global index of each element, in the region's order.
std::vector<index_t> elements_of(const Region& region) {
  const Piece piece{"", TensorKind::weight, region.global, region.box, region.begin, {}};
  std::vector<index_t> elements;
  for (index_t i = 0; i < region.count(); ++i) elements.push_back(global_index(piece, i));
  return elements;
}

const Shape kShapes[] = {{7}, {6, 5}, {3, 4, 5}, {2, 3, 3, 4}, {1, 9}, {9, 1}, {1}};

TEST(Region, RunsAreItsElementsInOrder) {
  std::mt19937 draw(1);
  for (int i = 0; i < 4000; ++i) {
    const Region region = random_region(kShapes[draw() % std::size(kShapes)], draw);
    ASSERT_EQ(fault_of(region), "");
    std::vector<index_t> walked;
    Runs runs(region);
    io::Run run{};
    index_t end = -1;
    while (runs.next(run)) {
      EXPECT_EQ(run.local, static_cast<index_t>(walked.size()));
      EXPECT_GT(run.global, end);
      end = run.global + run.count - 1;
      for (index_t k = 0; k < run.count; ++k) walked.push_back(run.global + k);
    }
    ASSERT_EQ(walked, elements_of(region));
    if (region.count() > 0) {
      EXPECT_EQ(first_index(region), walked.front());
      EXPECT_EQ(last_index(region), walked.back() + 1);
    }
  }
}

TEST(Region, OverlapsAreTheCommonElements) {
  std::mt19937 draw(2);
  for (int i = 0; i < 4000; ++i) {
    const Shape shape = kShapes[draw() % std::size(kShapes)];
    const Region a = random_region(shape, draw), b = random_region(shape, draw);
    const auto in_a = elements_of(a), in_b = elements_of(b);
    std::map<index_t, index_t> place_in_b;
    for (std::size_t k = 0; k < in_b.size(); ++k)
      place_in_b[in_b[k]] = static_cast<index_t>(k);
    std::vector<std::pair<index_t, index_t>> expected, walked;
    for (std::size_t k = 0; k < in_a.size(); ++k) {
      const auto at = place_in_b.find(in_a[k]);
      if (at != place_in_b.end()) expected.emplace_back(k, at->second);
    }
    Overlaps overlaps(a, b);
    Overlap part{};
    while (overlaps.next(part)) {
      for (index_t k = 0; k < part.count; ++k) {
        walked.emplace_back(part.first + k, part.second + k);
      }
    }
    ASSERT_EQ(walked, expected);
    EXPECT_EQ(overlap(a, b), !expected.empty());
  }
}

TEST(Region, BoxesAreItsElementsInOrder) {
  std::mt19937 draw(3);
  for (int i = 0; i < 4000; ++i) {
    const Region region = random_region(kShapes[draw() % std::size(kShapes)], draw);
    std::vector<index_t> walked;
    const auto boxes = boxes_of(region);
    EXPECT_LE(boxes.size(), static_cast<std::size_t>(2 * region.global.rank() - 1));
    for (const Box& box : boxes) {
      const auto part = elements_of({region.global, box, 0, box.extent.count()});
      walked.insert(walked.end(), part.begin(), part.end());
    }
    ASSERT_EQ(walked, elements_of(region));
  }
}

TEST(Region, FaultsAreNamed) {
  const auto fault = [](const Shape& global, const Box& box, index_t begin, index_t end) {
    return fault_of({global, box, begin, end});
  };
  EXPECT_EQ(fault({4, 4}, {{0, 0}, {4, 4}}, 0, 16), "");
  EXPECT_NE(fault({4, 4}, {{0, 1}, {4, 4}}, 0, 16), "");
  EXPECT_NE(fault({4, 4}, {{0, 0}, {4, 4}}, 0, 17), "");
  EXPECT_NE(fault({4, 4}, {{0, 0}, {4, 4}}, 5, 4), "");
  EXPECT_NE(fault({4, 4}, {{0}, {4}}, 0, 4), "");
  const index_t huge = index_t{1} << 40;
  EXPECT_NE(fault({huge, huge}, {{0, 0}, {huge, huge}}, 0, 1), "");
  EXPECT_NE(fault({huge * 1000, 1}, {{huge * 1000, 0}, {1, 1}}, 0, 1), "");
}

TEST(PieceTable, EveryElementOnce) {
  const auto piece = [](Box box, index_t begin, index_t end) {
    return StoredPiece{"a/weight", TensorKind::weight, 0, {{6, 4}, box, begin, end}, 0};
  };
  const Box whole{{0, 0}, {6, 4}}, left{{0, 0}, {6, 1}}, right{{0, 1}, {6, 3}};
  const auto fault = [](std::vector<StoredPiece> pieces) {
    return PieceTable(1, std::move(pieces)).fault();
  };
  EXPECT_EQ(fault({piece(whole, 0, 10), piece(whole, 10, 24)}), "");
  EXPECT_EQ(fault({piece(left, 0, 6), piece(right, 0, 18)}), "");
  EXPECT_EQ(fault({piece(right, 7, 18), piece(left, 0, 6), piece(right, 0, 7)}), "");
  EXPECT_NE(fault({piece(left, 0, 6), piece(right, 0, 17)}), "");
  // The count is right, an element is held twice.
  EXPECT_NE(fault({piece(whole, 0, 10), piece(whole, 9, 23)}).find("twice"),
            std::string::npos);
  EXPECT_NE(fault({piece(left, 0, 6), piece(whole, 0, 18)}).find("twice"),
            std::string::npos);
  const PieceTable table(1, {piece(left, 0, 6), piece(right, 0, 18)});
  EXPECT_EQ(PieceTable::from_bytes(table.to_bytes()).to_bytes(), table.to_bytes());
  EXPECT_EQ(table.find(TensorKind::weight, "a/weight"), 0);
  EXPECT_EQ(table.find(TensorKind::exp_avg, "a/weight"), -1);
}

TEST(PieceTable, Names) {
  for (const char* good : {"a", "blocks/003/attention/q/weight", "a.b/c_d-e"}) {
    EXPECT_TRUE(is_tensor_name(good)) << good;
  }
  for (const char* bad : {"", "/a", "a/", "a//b", "a/../b", ".", "a b", "a%b", "a\n"}) {
    EXPECT_FALSE(is_tensor_name(bad)) << bad;
  }
}

}  // namespace
}  // namespace llmtrain::io
