#include "llmtrain/core/error.hpp"

#include <gtest/gtest.h>

namespace llmtrain {
namespace {

TEST(Error, FailCarriesStatusAndText) {
  try {
    fail(Status::bad_data, "file ", 3);
    FAIL() << "fail returned";
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), Status::bad_data);
    EXPECT_STREQ(error.what(), "file 3");
  }
}

TEST(Error, RequireNamesTheCaller) {
  EXPECT_NO_THROW(require(true, "never"));
  try {
    require(false, "x is ", 7);
    FAIL() << "require returned";
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), Status::internal);
    EXPECT_NE(std::string(error.what()).find("error_test.cpp"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("x is 7"), std::string::npos);
  }
}

}  // namespace
}  // namespace llmtrain
