// What this program is and what it was built with.
#pragma once

#include <string>

namespace llmtrain::app {

std::string version();       // "0.1.0"
std::string version_text();  // several lines: libraries, compiler, instruction set

}  // namespace llmtrain::app
