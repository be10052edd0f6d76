#include "version.hpp"

#include <dnnl.h>
#include <hdf5.h>

#include <boost/version.hpp>

#include "llmtrain/comm/mpi_runtime.hpp"
#include "llmtrain/core/error.hpp"

namespace llmtrain::app {

std::string version() { return LLMTRAIN_VERSION; }

std::string version_text() {
  const dnnl_version_t& dnnl = *dnnl_version();
  unsigned major = 0, minor = 0, release = 0;
  H5get_libversion(&major, &minor, &release);
  return cat("llmtrain ", version(), ", CPU program (no CUDA), built by ",
             LLMTRAIN_COMPILER, " with ", LLMTRAIN_INSTRUCTIONS, "\n",
             MpiRuntime::version(), ", HDF5 ", major, ".", minor, ".", release,
             ", oneDNN ", dnnl.major, ".", dnnl.minor, ".", dnnl.patch, ", Boost ",
             BOOST_LIB_VERSION);
}

}  // namespace llmtrain::app
