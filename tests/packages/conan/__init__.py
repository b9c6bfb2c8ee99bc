"""Stands in for Conan 2: runs a recipe's methods in Conan's order, with CMake, as far as the
recipe of tools/packaging uses them. python3 -m conan RECIPE ARCHIVES WORK True|False"""
import os


class Options(dict):
    __getattr__ = dict.__getitem__


class Settings:
    os, arch, compiler, build_type = "Linux", "x86_64", "gcc", "Release"

    def get_safe(self, name):
        return getattr(self, name, None)


class Info:
    def __init__(self):
        self.libs, self.defines, self.system_libs, self.properties = [], [], [], {}

    def set_property(self, name, value):
        self.properties[name] = value


class ConanFile:
    def __init__(self, work):
        self.work = work
        self.options = Options(getattr(self, "default_options", {}))
        self.settings = Settings()
        self.cpp_info = Info()
        self.cache = {}
        self.source_folder = os.path.join(work, "src")
        self.build_folder = os.path.join(work, "build")
        self.package_folder = os.path.join(work, "package")
