// XXH3-128 as xxh128sum prints it.
#pragma once

#include <string>
#include <string_view>

namespace llmtrain::data {

std::string xxh128_hex(std::string_view bytes);

}  // namespace llmtrain::data
