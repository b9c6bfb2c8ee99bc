import os
import subprocess


def cmake_layout(recipe, src_folder="."):
    pass  # the folders are fixed


class CMakeToolchain:
    def __init__(self, recipe):
        self.recipe, self.cache_variables = recipe, {}

    def generate(self):
        self.recipe.cache = dict(self.cache_variables)


class CMake:
    def __init__(self, recipe):
        self.recipe = recipe

    def configure(self, build_script_folder="."):
        r = self.recipe
        folder = os.path.join(r.source_folder, build_script_folder)
        flags = ["-D%s=%s" % (k, "ON" if v else "OFF") for k, v in r.cache.items()]
        subprocess.check_call(["cmake", "-S", folder, "-B", r.build_folder,
                               "-DCMAKE_BUILD_TYPE=%s" % r.settings.build_type,
                               "-DCMAKE_INSTALL_PREFIX=" + r.package_folder,
                               "-DCMAKE_INSTALL_LIBDIR=lib"] + flags)

    def build(self):
        subprocess.check_call(["cmake", "--build", self.recipe.build_folder])

    def install(self):
        subprocess.check_call(["cmake", "--install", self.recipe.build_folder])
