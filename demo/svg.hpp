#pragma once

#include "timeline.hpp"

#include <filesystem>

namespace demo {

// Draws the timeline: all of it, and enlarged a part in which every command can be seen.
void write_svg(const Timeline& timeline, const std::filesystem::path& file);

}  // namespace demo
