"""Conan's recipe of heed @HEED_VERSION@."""

import os

from conan import ConanFile
from conan.tools.cmake import CMake, CMakeDeps, CMakeToolchain, cmake_layout
from conan.tools.files import copy, get

required_conan_version = ">=2"


class HeedConan(ConanFile):
    name = "heed"
    version = "@HEED_VERSION@"
    license = "MIT"
    description = "Attention on CPUs behind a small C API"
    topics = ("attention", "simd", "transformers")
    package_type = "library"
    settings = "os", "arch", "compiler", "build_type"
    options = {"shared": [True, False], "isas": ["ANY"]}
    default_options = {"shared": False, "isas": "ALL"}

    def layout(self):
        cmake_layout(self, src_folder="src")

    def build_requirements(self):
        # HEED_XSIMD_INCLUDE_DIR names one that is there already.
        if "HEED_XSIMD_INCLUDE_DIR" not in os.environ:
            self.test_requires("xsimd/[>=8.1]")

    def source(self):
        # HEED_ARCHIVE names the archive where it lies on this computer.
        source = {"url": "@HEED_URL@", "sha256": "@HEED_SHA256@", "strip_root": True}
        if "HEED_ARCHIVE" in os.environ:
            source["url"] = "file://" + os.environ["HEED_ARCHIVE"]
        get(self, **source)

    def generate(self):
        CMakeDeps(self).generate()
        toolchain = CMakeToolchain(self)
        include = os.environ.get("HEED_XSIMD_INCLUDE_DIR")
        if include is None:
            include = self.dependencies["xsimd"].cpp_info.includedirs[0]
        toolchain.cache_variables.update({
            "HEED_XSIMD_INCLUDE_DIR": include,
            "HEED_ISAS": str(self.options.isas),
            "HEED_TBB": "OFF",
            "HEED_OPENMP": "OFF",
            "HEED_CBLAS": "OFF",
            "HEED_MPI": "OFF",
            "HEED_BUILD_EXAMPLES": "OFF",
        })
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        copy(self, "LICENSE", self.source_folder, os.path.join(self.package_folder, "licenses"))
        CMake(self).install()

    def package_info(self):
        self.cpp_info.libs = ["heed"]
        self.cpp_info.set_property("cmake_file_name", "heed")
        self.cpp_info.set_property("cmake_target_name", "heed::heed")
        self.cpp_info.set_property("pkg_config_name", "heed")
        if not self.options.shared:
            self.cpp_info.defines = ["HEED_STATIC"]
            self.cpp_info.system_libs = ["stdc++", "m", "pthread"] if self.settings.os == "Linux" else []
