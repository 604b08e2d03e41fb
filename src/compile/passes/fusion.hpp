#pragma once

#include "compile/passes/fuse.hpp"
#include "compile/passes/program_copy.hpp"
#include "ir/builder.hpp"
#include "ir/ir.hpp"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// How fuse() works: for the files fuse*.cpp alone.
namespace tessera::compile {

// Why two programs cannot be fused.
struct FusionRefusal {
  std::string reason;
};
[[noreturn]] inline void refuse(std::string_view reason) { throw FusionRefusal{std::string(reason)}; }

// An index of a load in the form start + scale * (0, 1, … extent - 1), with start = base + offset and extent = whole +
// more.
struct Line {
  ir::Id base = ir::none;  // rank 0; none: 0
  std::int64_t offset = 0;
  std::int64_t scale = 0;   // 0: a single index
  ir::Id whole = ir::none;  // an extent; none: 0
  std::int64_t more = 0;
  std::size_t from_end = 0;  // the axis of the load that it runs along: 1 is the last
};

std::optional<Line> line_of(ir::Builder& make, ir::Id id);

// A sum without the constant in it, and the constant.
std::pair<ir::Id, std::int64_t> without_constant(const ir::Builder& make, ir::Id id);

enum class Way : std::uint8_t { direct, parts, points };

// Everything that the reader reads of the writer's output along one axis.
struct Reach {
  Line like;               // base, scale and whole are common to all loads
  std::int64_t first = 0;  // the least offset
  std::int64_t last = 0;   // base + last + scale * whole is the last index
  bool is_known = true;    // every load has this form
  bool is_all = true;      // every load reads the whole axis
  // Every load reads at constant distances from each point's own coordinate.
  bool is_around_own = true;
  // For groups of `scale` elements: which elements are read, and whether base and border rules are those of groups.
  std::set<std::int64_t> members;
  bool is_in_groups = true;

  // For borders that are mirrored: an index outside is read on the same side of the border as the point, and no farther
  // from it, but perhaps in the other direction.
  void reach_equally_far() {
    const std::int64_t distance = std::max(-first, last + 1);
    first = -distance;
    last = distance - 1;
  }
};

inline std::int64_t quotient_down(std::int64_t a, std::int64_t b) { return a >= 0 ? a / b : -((b - 1 - a) / b); }

// If an extent is the tile's along this axis plus a constant: the constant.
std::optional<std::int64_t> neighbours(const ir::Program& program, ir::Id extent, int axis);

// Whether a program computes each point along an axis from coordinates and from neighbours that are whole groups away,
// so that one element of each group can be computed by itself: the tile's extent, with or without neighbours, must be
// used as an extent only.
bool can_skip_along(const ir::Program& program, int axis, std::int64_t group);

// Fuses one reader with one writer.
class Fusion {
 public:
  Fusion(const ir::Program& reader, int input, const ir::Program& writer, std::span<const int> same);
  ir::Program run();
  const std::vector<int>& writer_inputs() const { return inputs_; }
  bool skips() const { return group_ > 1; }
  bool recomputes_halo() const { return way_ == Way::parts; }

 private:
  using Load = std::function<ir::Id(const ir::Op&, const std::vector<ir::Id>&)>;

  std::size_t rank() const { return reader_.buffers[static_cast<std::size_t>(input_)].dims.size(); }
  void check() const;
  void name_buffers(std::span<const int> same);
  void look();
  ir::Id copy_reader(ir::Builder& make, const Load& load);
  ir::Id copy_writer(ir::Builder& make, const std::vector<ir::Id>& start, const std::vector<ir::Id>& extent);
  void skip_in_groups(ir::Builder& make, ProgramCopy::Choices& choices, ir::Id extent);
  int axis_like(std::size_t axis, std::int64_t factor) const;
  bool is_own_axis(const ir::Builder& make, const Line& line, std::size_t axis, int* output_axis) const;
  bool is_own_group(const ir::Builder& make, const Line& line, std::size_t axis, int* output_axis) const;
  bool is_direct(ir::Builder& make, const std::vector<ir::Id>& indices, bool in_groups);
  void note_reach(ir::Builder& make, const ir::Op& op, const std::vector<ir::Id>& indices);
  void choose_way();
  std::int64_t group_to_skip() const;
  ir::Id read_directly(ir::Builder& make, const std::vector<ir::Id>& indices);
  ir::Id read_part(ir::Builder& make, const ir::Op& op, const std::vector<ir::Id>& indices);
  struct PartAxis {
    ir::Id start, extent;  // of the part, in the writer's output
    ir::Id first, dim;     // the same start and the axis' extent, in the units of `index`
    ir::Id index;          // of the load
    std::int64_t step;     // of its border
  };
  PartAxis part_along(ir::Builder& make, std::size_t axis, ir::Id index, std::int64_t step) const;
  PartAxis part_in_groups(ir::Builder& make, std::size_t axis, ir::Id index, std::int64_t step) const;
  ir::Id read_points(ir::Builder& make, const ir::Op& op, const std::vector<ir::Id>& indices);
  void add_same_extents(ir::Builder& make) const;
  ir::Idiom extended_idiom() const;
  ir::Program row_program() const;

  const ir::Program& reader_;
  const int input_;
  const ir::Program& writer_;
  const std::vector<bool> writer_whole_;
  std::vector<bool> whole_;
  std::vector<ir::Buffer> buffers_;
  std::vector<ir::Scalar> scalars_;
  std::vector<int> inputs_;  // the writer's inputs among the buffers

  Way way_ = Way::direct;
  bool all_direct_ = true;
  bool all_direct_in_groups_ = true;  // the same, for elements of groups
  bool is_in_loop_ = false;           // a load is in a loop
  bool wraps_ = false;                // a border wraps around
  bool reflects_ = false;             // a border is mirrored
  bool has_zero_border_ = false;
  std::vector<Reach> reach_;
  bool has_reach_ = false;
  std::int64_t group_ = 1;  // along the last axis only one element of each group of this size is computed
  std::map<std::vector<ir::Id>, ir::Id> parts_;  // by where they begin and end
};

}  // namespace tessera::compile
