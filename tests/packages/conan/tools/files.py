import hashlib
import os
import shutil
import tarfile


def copy(recipe, pattern, src, dst):
    os.makedirs(dst, exist_ok=True)
    return shutil.copy(os.path.join(src, pattern), dst)


def rmdir(recipe, folder):
    shutil.rmtree(folder)


def get(recipe, url, sha256, strip_root=False):
    path = os.path.join(recipe.archives, os.path.basename(url))
    with open(path, "rb") as file:
        found = hashlib.sha256(file.read()).hexdigest()
    assert found == sha256, "SHA-256: expected %s, found %s" % (sha256, found)
    with tarfile.open(path) as archive:
        archive.extractall(recipe.work)
        root = archive.getnames()[0].split("/")[0]
    assert strip_root
    os.rename(os.path.join(recipe.work, root), recipe.source_folder)
