from conan import ConanFile
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout
from conan.tools.files import copy, get, rmdir
import os

required_conan_version = ">=2.0"


class VitConan(ConanFile):
    name = "vit"
    description = "Vision Transformer inference in one C header, without dependencies"
    license = "MIT"
    url = "https://github.com/conan-io/conan-center-index"
    homepage = "@URL@"
    topics = ("vision-transformer", "vit", "inference", "image-classification", "embeddings")
    package_type = "library"
    settings = "os", "arch", "compiler", "build_type"
    options = {"shared": [True, False], "fPIC": [True, False]}
    default_options = {"shared": False, "fPIC": True}
    implements = ["auto_shared_fpic"]
    languages = ["C"]

    def layout(self):
        cmake_layout(self, src_folder="src")

    def source(self):
        get(self, **self.conan_data["sources"][self.version], strip_root=True)

    def generate(self):
        tc = CMakeToolchain(self)
        tc.cache_variables["VIT_INSTALL"] = True
        tc.cache_variables["VIT_STATIC_LIBRARY"] = not self.options.shared
        tc.cache_variables["VIT_SHARED_LIBRARY"] = bool(self.options.shared)
        tc.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure(build_script_folder="tools/packaging/cmake")
        cmake.build()

    def package(self):
        copy(self, "LICENSE", self.source_folder, os.path.join(self.package_folder, "licenses"))
        cmake = CMake(self)
        cmake.install()
        rmdir(self, os.path.join(self.package_folder, "share"))

    def package_info(self):
        shared = bool(self.options.shared)
        self.cpp_info.libs = ["vit"]
        if self.settings.get_safe("compiler") == "msvc" and not shared:
            self.cpp_info.libs = ["vit-static"]
        if self.settings.os == "Windows" and shared:
            self.cpp_info.defines = ["VIT_API=__declspec(dllimport)"]
        if self.settings.os in ("Linux", "FreeBSD"):
            self.cpp_info.system_libs = ["pthread"]
        self.cpp_info.set_property("cmake_file_name", "vit")
        self.cpp_info.set_property("cmake_target_name", "vit::shared" if shared else "vit::static")
        self.cpp_info.set_property("pkg_config_name", "libvit")
