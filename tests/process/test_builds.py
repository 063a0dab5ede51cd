"""Builds of frameworks against GPUs: what is said before a start, by the answers of real interpreters."""

from dataclasses import replace
from pathlib import Path

import pytest

from core.config import builds, validation
from core.config.builds import fit
from core.config.choices import RecipeChoices, ScriptChoices
from core.config.examination import examine, spec_obstacles
from core.config.finding import Mark, problems_of
from core.devices.device import Device
from core.pythons.python_info import ProbeCache, PythonProbe, default_file
from core.schema.spec import RunSpec
from tests.support.pythons import install, make_environment
from tests.support.running import make_spec

CPU = Device(id="cpu:0", kind="cpu", label="CPU 0", name="Xeon", cores=(0,))
ADA = Device(id="GPU-0", kind="nvidia", label="GPU 0", name="RTX 4090", compute_capability=(8, 9))
BLACKWELL = Device(id="GPU-1", kind="nvidia", label="GPU 1", name="RTX 5090", compute_capability=(12, 0))
UNKNOWN = Device(id="GPU-2", kind="nvidia", label="GPU 2", name="RTX 4090")
VOLTA = Device(id="GPU-3", kind="nvidia", label="GPU 3", name="V100", compute_capability=(3, 5))
DEVICES = (CPU, ADA, BLACKWELL, UNKNOWN)
OLD, NEW = "sm_70 sm_80 sm_86 sm_90", "sm_75 sm_80 sm_90 sm_120 compute_120"
TF = "build_info = {{'is_cuda_build': {cuda}, 'cuda_compute_capabilities': ['sm_60', 'sm_80', 'sm_89', 'compute_90']}}"


@pytest.mark.parametrize(
    ("capability", "architectures", "expected"),
    [
        ((8, 9), "sm_80 sm_86 sm_90", "native"),
        ((8, 0), "sm_86 sm_90", "none"),
        ((8, 6), "sm_75 compute_80", "native"),
        ((9, 0), "sm_80 compute_80", "compiled"),
        ((9, 0), "sm_80 sm_90a", "native"),
        ((9, 1), "sm_80 sm_90a", "none"),
        ((10, 3), "sm_90 sm_100f", "native"),
        ((12, 0), "sm_90 compute_90", "compiled"),
        ((12, 0), "sm_90", "none"),
        ((3, 5), "sm_80 compute_80", "none"),
        ((8, 9), "", ""),
        ((8, 9), "gfx1100 x", ""),
        (None, "sm_80", ""),
    ],
)
def test_code_fits_a_gpu_by_the_rules_of_cuda(capability, architectures, expected) -> None:
    assert fit(capability, architectures.split()) == expected


def torch(python: Path, cuda: str | None, flags: str = "") -> None:
    folder = install(python, "torch", "2.9.0", version_py=f"__version__ = '2.9.0'\ncuda = {cuda!r}\n")
    code = f"class _C:\n    _cuda_getArchFlags = staticmethod(lambda: {flags!r})\n"
    (folder / "__init__.py").write_text(code if flags else "raise ImportError\n")


def tensorflow(python: Path, *, cuda: bool) -> None:
    install(python, "tensorflow", "2.20.0", python__platform__build_info_py=TF.format(cuda=cuda))


def spec(python: Path, framework: str, *devices: Device) -> RunSpec:
    strategy = {"pytorch": "ddp", "tensorflow": "mirrored", "keras": "mirrored"}[framework]
    return replace(
        make_spec("digits_mlp"), python=str(python), framework=framework, devices=tuple(each.id for each in devices),
        strategy="single" if len(devices) == 1 else strategy,
    )


@pytest.fixture(autouse=True)
def _no_other_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("core.pythons.discovery.find_pythons", lambda: iter(()))


@pytest.fixture(scope="module")
def pythons(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Environments by what they have; tests must not modify them."""
    names = ("bare", "cpu", "old", "new", "broken")
    found = {name: make_environment(tmp_path_factory.mktemp("env") / name) for name in names}
    torch(found["cpu"], None)
    tensorflow(found["cpu"], cuda=False)
    torch(found["old"], "12.8", OLD)
    tensorflow(found["old"], cuda=True)
    torch(found["new"], "13.0", NEW)
    torch(found["broken"], "13.0")
    return found


CPU_BUILD = (
    "PyTorch 2.9.0 in {python} is a build without CUDA and cannot use GPU 0. Install another build there: uv pip "
    "install --python {python} --force-reinstall torch. Or tick other devices."
)
NO_CODE = (
    "PyTorch 2.9.0 in {python} has no code for GPU 1 (RTX 5090, compute capability 12.0). It was built for sm_70, "
    "sm_80, sm_86, sm_90. Install another build there: uv pip install --python {python} --force-reinstall torch. Or "
    "tick other devices."
)
CUDNN = (
    "TensorFlow 2.20.0 finds no cuDNN and may train on the CPU instead (uv pip install --python {python} "
    "--force-reinstall 'tensorflow[and-cuda]' installs it)."
)
COMPILED = (
    "TensorFlow 2.20.0 has no finished code for GPU 1 (RTX 5090, compute capability 12.0): the driver compiles it "
    "first, which may take half an hour or fail."
)
UNLIKE = "Unlike: GPU 1 (RTX 5090) beside RTX 4090: the slowest and smallest decides."
BUILT, BUILT_FOR_BOTH = "PyTorch 2.9.0 is built for GPU 0.", "PyTorch 2.9.0 is built for GPU 0 and GPU 1."
CPU_TENSORFLOW = (
    "TensorFlow 2.20.0 in {python} is a build without CUDA and cannot use GPU 0. Install another build there: uv pip "
    "install --python {python} --force-reinstall 'tensorflow[and-cuda]'. Or tick other devices."
)


@pytest.mark.parametrize(
    ("name", "framework", "devices", "problems", "doubts"),
    [
        ("cpu", "pytorch", (CPU,), (), ()),
        ("cpu", "pytorch", (ADA,), (CPU_BUILD,), ()),
        ("old", "pytorch", (ADA,), (), (BUILT,)),
        ("old", "pytorch", (UNKNOWN,), (), ()),
        ("old", "pytorch", (ADA, BLACKWELL), (NO_CODE,), (UNLIKE,)),
        ("new", "pytorch", (ADA, BLACKWELL), (), (BUILT_FOR_BOTH, UNLIKE)),
        ("new", "pytorch", (ADA, UNKNOWN), (), ()),
        ("broken", "pytorch", (BLACKWELL,), (), ()),
        ("cpu", "keras", (ADA,), (CPU_TENSORFLOW,), ()),
        ("old", "tensorflow", (ADA,), (), (CUDNN,)),
        ("old", "keras", (BLACKWELL,), (), (COMPILED,)),
        ("new", "tensorflow", (ADA,), (), ()),
    ],
)
def test_build_is_judged_before_the_start(pythons, name, framework, devices, problems, doubts) -> None:
    python = pythons[name]
    found = builds.judge(spec(python, framework, *devices), DEVICES)
    assert problems_of(found) == [each.format(python=python) for each in problems]
    assert [str(each) for each in found if each.mark is not Mark.PROBLEM] == [
        each.format(python=python) for each in doubts
    ]
    marks = {str(each): each.mark for each in found}
    assert all((marks[each] is Mark.READY) is (each in {BUILT, BUILT_FOR_BOTH}) for each in marks)


def test_another_python_that_has_a_build_with_cuda_is_the_remedy(pythons, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = ProbeCache(default_file())
    known = str(pythons["new"])
    cache.put(known, PythonProbe(known).wait())
    cache.save()
    unknown = replace(spec(pythons["cpu"], "pytorch", ADA), strategy="of another version")
    assert [each.cures for each in builds.judge(unknown, DEVICES)] == [()]
    found = [type("Found", (), {"path": str(path)}) for path in pythons.values()]
    monkeypatch.setattr("core.pythons.discovery.find_pythons", lambda: iter(found))
    given = spec(pythons["cpu"], "pytorch", ADA)
    (problem,) = builds.judge(given, DEVICES)
    assert str(problem).endswith(f"Choose the Python {known}, which has PyTorch 2.9.0 with CUDA (--python {known}).")
    offered = [(each.words, each.values) for each in problem.cures]
    assert offered == [("Use Python new", (known,)), ("Train on the CPU", ("cpu:0",))]
    lacking = replace(given, python=str(pythons["bare"]))
    assert [each.values for each in validation.problems(lacking, DEVICES)[0].cures] == [(known,)]
    builds._ask(known, "torch")  # its code is for other GPUs than this one
    (problem,) = builds.judge(replace(given, devices=("GPU-3",)), (*DEVICES, VOLTA))
    assert ("Use Python new" in [each.words for each in problem.cures], problem.remedy) == (False, "")


def test_pytorch_is_asked_once(pythons, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(builds, "torch_architectures", lambda python: asked.append(python) or ["sm_90"])
    for _ in range(2):
        assert problems_of(builds.judge(spec(pythons["new"], "pytorch", ADA), DEVICES))
    assert asked == [str(pythons["new"])]


def test_recipe_is_refused_and_script_is_warned(pythons, tmp_path: Path) -> None:
    given = spec(pythons["cpu"], "pytorch", ADA)
    assert str(spec_obstacles(given, DEVICES)[0]) == str(*builds.judge(given, DEVICES))
    recipe = RecipeChoices(recipe="digits_mlp", devices=("GPU-0",), strategy="single", python=given.python)
    assert list(examine(recipe, DEVICES).problems) == list(map(str, spec_obstacles(given, DEVICES)))
    program = tmp_path / "train.py"
    program.write_text("import torch\n")
    choices = ScriptChoices(
        script=str(program), working_dir=str(tmp_path), devices=("GPU-0",), python=given.python
    )
    found = examine(choices, DEVICES)
    assert found.problems == ()
    (warning,) = [each for each in found.findings if "is a build without CUDA" in each.sentence]
    assert (warning.mark, [each.words for each in warning.cures]) == (Mark.WARNING, ["Train on the CPU"])
