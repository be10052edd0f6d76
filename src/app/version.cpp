#include "version.hpp"

#include <dnnl.h>
#include <hdf5.h>

#include <boost/version.hpp>

#include "llmtrain/comm/mpi_runtime.hpp"
#include "llmtrain/core/error.hpp"

namespace llmtrain::app {

std::string version() { return LLMTRAIN_VERSION; }

// HDF5's version is the headers': its functions must not be called before the checkpoint layer
// has told the library not to act at exit, where it crashes after a failed write.
std::string version_text() {
  const dnnl_version_t& dnnl = *dnnl_version();
  return cat("llmtrain ", version(), ", CPU program (no CUDA), built by ",
             LLMTRAIN_COMPILER, " with ", LLMTRAIN_INSTRUCTIONS, "\n",
             MpiRuntime::version(), ", HDF5 ", H5_VERS_MAJOR, ".", H5_VERS_MINOR, ".",
             H5_VERS_RELEASE, ", oneDNN ", dnnl.major, ".", dnnl.minor, ".", dnnl.patch,
             ", Boost ", BOOST_LIB_VERSION);
}

}  // namespace llmtrain::app
