// Whether a checkpoint is what its MANIFEST says.
#pragma once

#include <string>

#include "io/manifest.hpp"
#include "llmtrain/comm/communicator.hpp"
#include "llmtrain/config/config.hpp"

namespace llmtrain::io {

// The first fault of the checkpoint in `folder`; empty when there is none. `sizes` looks
// at MANIFEST and the size of each file, `full` at every digest, which the ranks share.
// Collective: all ranks get the same answer. Never throws for what a file can be.
std::string find_fault(Communicator& world, const std::string& folder, VerifyMode mode);

// Throws Error unless a file is there with the size and, in full mode, the digest that
// MANIFEST says. Local.
void check_file(const std::string& folder, const FileRecord& record, VerifyMode mode);

// Runs `work` on this rank and returns what it threw as text; empty when it did not throw.
template <class Work>
std::string fault_in(Work work) {
  try {
    work();
    return "";
  } catch (const std::exception& error) {
    return *error.what() != '\0' ? error.what() : "unknown fault";
  }
}

// The fault of the first rank that has one. Collective.
std::string first_fault(Communicator& world, const std::string& fault);

}  // namespace llmtrain::io
