class Heed < Formula
  desc "Attention on CPUs behind a small C API"
  homepage "@HEED_HOMEPAGE@"
  url "@HEED_URL@"
  sha256 "@HEED_SHA256@"
  license "MIT"

  depends_on "cmake" => :build
  depends_on "xsimd" => :build

  def install
    system "cmake", "-S", ".", "-B", "build", "-DHEED_OPENMP=OFF", "-DHEED_CBLAS=OFF", "-DHEED_MPI=OFF",
           "-DHEED_TBB=OFF", "-DHEED_BUILD_EXAMPLES=OFF", *std_cmake_args
    system "cmake", "--build", "build"
    system "cmake", "--install", "build"
    pkgshare.install "api/examples/embed.c"
  end

  test do
    system ENV.cc, pkgshare/"embed.c", "-I#{include}", "-L#{lib}", "-lheed", "-o", "embed"
    assert_equal "0.307790\n", shell_output("./embed")
  end
end
