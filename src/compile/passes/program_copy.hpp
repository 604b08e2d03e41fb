#pragma once

#include "ir/builder.hpp"
#include "ir/ir.hpp"

#include <functional>
#include <map>
#include <span>
#include <vector>

namespace tessera::compile {

// The ops that the output, or `root`, depends on. Ops in `given` count as leaves.
std::vector<bool> live_ops(const ir::Program& program);
std::vector<bool> live_ops(const ir::Program& program, ir::Id root, const std::map<ir::Id, ir::Id>& given);

// Copies the ops of a program into another one. The caller chooses what replaces coordinates, extents and loads.
class ProgramCopy {
 public:
  struct Choices {
    std::function<ir::Id(const ir::Op&)> leaf;  // dim, tile_dim, origin, block, scalar
    std::function<ir::Id(const ir::Op&, const std::vector<ir::Id>& indices)> load;
    std::function<ir::Id(const ir::Op&, ir::Id made)> iota = nullptr;                     // what replaces it
    std::function<ir::Id(const ir::Op&, std::size_t axis, ir::Id made)> start = nullptr;  // of a slice
    std::function<ir::Extents(const ir::Op&, ir::Extents made)> shape = nullptr;          // of iota, broadcast, reshape
    std::map<ir::Id, ir::Id> given = {};                                                  // values that exist already
    bool drops_broadcasts = false;  // shapes follow from the loads
  };

  // Copies what the program stores, or the value `root`.
  ProgramCopy(ir::Builder& to, const ir::Program& from, Choices choices, ir::Id root = ir::none);

  ir::Id run() {
    copy(from_.body());
    return at(root_);
  }

 private:
  ir::Id& at(ir::Id id) { return copies_[static_cast<std::size_t>(id)]; }
  std::vector<ir::Id> all(std::span<const ir::Id> ids) {
    std::vector<ir::Id> copies;
    for (const ir::Id id : ids) copies.push_back(at(id));
    return copies;
  }
  ir::Extents shape_of(const ir::Op& op) { return choices_.shape ? choices_.shape(op, all(op.shape)) : all(op.shape); }
  void copy(const ir::Region& region);
  void copy_loop(ir::Id id);
  ir::Id made(const ir::Op& op);

  ir::Builder& to_;
  const ir::Program& from_;
  Choices choices_;
  const ir::Id root_;
  const std::vector<bool> is_live_;
  std::vector<ir::Id> copies_;
  std::map<ir::Id, std::vector<ir::Id>> results_;  // of loops
};

}  // namespace tessera::compile
