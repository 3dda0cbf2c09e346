# Written by tools/stubs.py from the declarations; do not edit.
from collections.abc import Iterable
from typing import Any, ClassVar, Literal, SupportsFloat, SupportsIndex

from gradplan.declaration import Descriptor, Op
from gradplan.functional import SupportsDLPack, T
from gradplan.plan import Plan
from gradplan.vocabulary import (
    BinaryKind,
    Bounds,
    CsrKind,
    DType,
    ElementKind,
    ExtremeKind,
    PlanPreference,
    ScanKind,
    ScatterKind,
    SegmentExtremeKind,
    SegmentKind,
    SegmentTies,
    SoftmaxKind,
    Ties,
    WeightedKind,
)

__all__ = [
    "BinaryParamBackwardDescriptor",
    "BinaryParamBackwardPlan",
    "BinaryParamDescriptor",
    "BinaryParamPlan",
    "EmbeddingBackwardDescriptor",
    "EmbeddingBackwardPlan",
    "EmbeddingDescriptor",
    "EmbeddingPlan",
    "GatherBackwardDescriptor",
    "GatherBackwardPlan",
    "GatherDescriptor",
    "GatherPlan",
    "IndexAddBackwardDescriptor",
    "IndexAddBackwardPlan",
    "IndexAddDescriptor",
    "IndexAddPlan",
    "IndexSelectBackwardDescriptor",
    "IndexSelectBackwardPlan",
    "IndexSelectDescriptor",
    "IndexSelectPlan",
    "LinearScanBackwardDescriptor",
    "LinearScanBackwardPlan",
    "LinearScanDescriptor",
    "LinearScanPlan",
    "ScanBackwardDescriptor",
    "ScanBackwardPlan",
    "ScanDescriptor",
    "ScanIndicesDescriptor",
    "ScanIndicesPlan",
    "ScanPartDescriptor",
    "ScanPartFoldDescriptor",
    "ScanPartFoldPlan",
    "ScanPartGradientDescriptor",
    "ScanPartGradientPlan",
    "ScanPartGradientTotalDescriptor",
    "ScanPartGradientTotalPlan",
    "ScanPartPlan",
    "ScanPartTotalDescriptor",
    "ScanPartTotalPlan",
    "ScanPlan",
    "ScanWithIndicesDescriptor",
    "ScanWithIndicesPlan",
    "ScatterAddBackwardDescriptor",
    "ScatterAddBackwardPlan",
    "ScatterAddDescriptor",
    "ScatterAddPlan",
    "ScatterReduceBackwardDescriptor",
    "ScatterReduceBackwardPlan",
    "ScatterReduceDescriptor",
    "ScatterReducePlan",
    "SegmentCsrBackwardDescriptor",
    "SegmentCsrBackwardPlan",
    "SegmentCsrDescriptor",
    "SegmentCsrPlan",
    "SegmentCsrSoftmaxBackwardDescriptor",
    "SegmentCsrSoftmaxBackwardPlan",
    "SegmentCsrSoftmaxDescriptor",
    "SegmentCsrSoftmaxPlan",
    "SegmentReduceBackwardDescriptor",
    "SegmentReduceBackwardPlan",
    "SegmentReduceDescriptor",
    "SegmentReducePlan",
    "SegmentSoftmaxBackwardDescriptor",
    "SegmentSoftmaxBackwardPlan",
    "SegmentSoftmaxDescriptor",
    "SegmentSoftmaxPlan",
    "SegmentSumBackwardDescriptor",
    "SegmentSumBackwardPlan",
    "SegmentSumDescriptor",
    "SegmentSumPlan",
    "SegmentWeightedBackwardDescriptor",
    "SegmentWeightedBackwardPlan",
    "SegmentWeightedDescriptor",
    "SegmentWeightedPlan",
    "SegmentWithIndicesDescriptor",
    "SegmentWithIndicesPlan",
    "SparsemaxBackwardDescriptor",
    "SparsemaxBackwardPlan",
    "SparsemaxDescriptor",
    "SparsemaxPlan",
    "UnsortedSegmentReduceDescriptor",
    "UnsortedSegmentReducePlan",
    "UnsortedSegmentSoftmaxDescriptor",
    "UnsortedSegmentSoftmaxPlan",
    "UnsortedSegmentSumDescriptor",
    "UnsortedSegmentSumPlan",
    "UnsortedSegmentWeightedDescriptor",
    "UnsortedSegmentWeightedPlan",
    "UnsortedSegmentWithIndicesDescriptor",
    "UnsortedSegmentWithIndicesPlan",
]

class BinaryParamDescriptor(Descriptor):
    kind: BinaryKind
    shape: tuple[int, ...]
    element: ElementKind
    param: float
    def __init__(
        self,
        *,
        kind: BinaryKind | Literal["lerp"],
        shape: Iterable[SupportsIndex],
        element: ElementKind | Literal["f16", "bf16", "f32", "f64"] | DType,
        param: SupportsFloat,
    ) -> None: ...

class BinaryParamPlan(Plan[BinaryParamDescriptor]):
    op: ClassVar[Op]
    @classmethod
    def select(
        cls,
        desc: BinaryParamDescriptor,
        prefer: PlanPreference = ...,
        device: str = "cpu",
    ) -> BinaryParamPlan: ...
    def can_implement(  # type: ignore[override]
        self,
        *,
        a: T,
        b: T,
        y: T | None = None,
        workspace: Any = None,
        stream: Any = None,
    ) -> None: ...
    def run(  # type: ignore[override]
        self,
        *,
        a: T,
        b: T,
        y: T | None = None,
        workspace: Any = None,
        stream: Any = None,
    ) -> T: ...

class BinaryParamBackwardDescriptor(Descriptor):
    kind: BinaryKind
    shape: tuple[int, ...]
    element: ElementKind
    param: float
    def __init__(
        self,
        *,
        kind: BinaryKind | Literal["lerp"],
        shape: Iterable[SupportsIndex],
        element: ElementKind | Literal["f16", "bf16", "f32", "f64"] | DType,
        param: SupportsFloat,
    ) -> None: ...

class BinaryParamBackwardPlan(Plan[BinaryParamBackwardDescriptor]):
    op: ClassVar[Op]
    @classmethod
    def select(
        cls,
        desc: BinaryParamBackwardDescriptor,
        prefer: PlanPreference = ...,
        device: str = "cpu",
    ) -> BinaryParamBackwardPlan: ...
    def can_implement(  # type: ignore[override]
        self,
        *,
        dy: T,
        da: T | None = None,
        db: T | None = None,
        workspace: Any = None,
        stream: Any = None,
    ) -> None: ...
    def run(  # type: ignore[override]
        self,
        *,
        dy: T,
        da: T | None = None,
        db: T | None = None,
        workspace: Any = None,
        stream: Any = None,
    ) -> tuple[T, T]: ...

class EmbeddingDescriptor(Descriptor):
    num_embeddings: int
    embedding_dim: int
    num_indices: int
    padding_idx: int | None
    element: ElementKind
    bounds: Bounds
    def __init__(
        self,
        *,
        num_embeddings: SupportsIndex,
        embedding_dim: SupportsIndex,
        num_indices: SupportsIndex,
        padding_idx: SupportsIndex | None = None,
        element: ElementKind | Literal["f16", "bf16", "f32", "f64"] | DType,
        bounds: Bounds | Literal["skip", "raise"] = ...,
    ) -> None: ...

class EmbeddingPlan(Plan[EmbeddingDescriptor]):
    op: ClassVar[Op]
    @classmethod
    def select(
        cls,
        desc: EmbeddingDescriptor,
        prefer: PlanPreference = ...,
        device: str = "cpu",
    ) -> EmbeddingPlan: ...
    def can_implement(  # type: ignore[override]
        self,
        *,
        weight: T,
        indices: SupportsDLPack,
        output: T | None = None,
        workspace: Any = None,
        stream: Any = None,
    ) -> None: ...
    def run(  # type: ignore[override]
        self,
        *,
        weight: T,
        indices: SupportsDLPack,
        output: T | None = None,
        workspace: Any = None,
        stream: Any = None,
    ) -> T: ...

class EmbeddingBackwardDescriptor(Descriptor):
    num_embeddings: int
    embedding_dim: int
    num_indices: int
    padding_idx: int | None
    element: ElementKind
    accumulate: bool
    bounds: Bounds
    def __init__(
        self,
        *,
        num_embeddings: SupportsIndex,
        embedding_dim: SupportsIndex,
        num_indices: SupportsIndex,
        padding_idx: SupportsIndex | None = None,
        element: ElementKind | Literal["f16", "bf16", "f32", "f64"] | DType,
        accumulate: bool = False,
        bounds: Bounds | Literal["skip", "raise"] = ...,
    ) -> None: ...

class EmbeddingBackwardPlan(Plan[EmbeddingBackwardDescriptor]):
    op: ClassVar[Op]
    @classmethod
    def select(
        cls,
        desc: EmbeddingBackwardDescriptor,
        prefer: PlanPreference = ...,
        device: str = "cpu",
    ) -> EmbeddingBackwardPlan: ...
    def can_implement(  # type: ignore[override]
        self,
        *,
        dout: T,
        indices: SupportsDLPack,
        dweight: T | None = None,
        workspace: Any = None,
        stream: Any = None,
    ) -> None: ...
    def run(  # type: ignore[override]
        self,
        *,
        dout: T,
        indices: SupportsDLPack,
        dweight: T | None = None,
        workspace: Any = None,
        stream: Any = None,
    ) -> T: ...

class GatherDescriptor(Descriptor):
    shape: tuple[int, ...]
    axis: int
    size: int
    element: ElementKind
    bounds: Bounds
    def __init__(
        self,
        *,
        shape: Iterable[SupportsIndex],
        axis: SupportsIndex,
        size: SupportsIndex,
        element: ElementKind | Literal["f16", "bf16", "f32", "f64"] | DType,
        bounds: Bounds | Literal["skip", "raise"] = ...,
    ) -> None: ...

class GatherPlan(Plan[GatherDescriptor]):
    op: ClassVar[Op]
    @classmethod
    def select(
        cls,
        desc: GatherDescriptor,
        prefer: PlanPreference = ...,
        device: str = "cpu",
    ) -> GatherPlan: ...
    def can_implement(  # type: ignore[override]
        self,
        *,
        x: T,
        indices: SupportsDLPack,
        output: T | None = None,
        workspace: Any = None,
        stream: Any = None,
    ) -> None: ...
    def run(  # type: ignore[override]
        self,
        *,
        x: T,
        indices: SupportsDLPack,
        output: T | None = None,
        workspace: Any = None,
        stream: Any = None,
    ) -> T: ...

class GatherBackwardDescriptor(Descriptor):
    shape: tuple[int, ...]
    axis: int
    size: int
    element: ElementKind
    bounds: Bounds
    def __init__(
        self,
        *,
        shape: Iterable[SupportsIndex],
        axis: SupportsIndex,
        size: SupportsIndex,
        element: ElementKind | Literal["f16", "bf16", "f32", "f64"] | DType,
        bounds: Bounds | Literal["skip", "raise"] = ...,
    ) -> None: ...

class GatherBackwardPlan(Plan[GatherBackwardDescriptor]):
    op: ClassVar[Op]
    @classmethod
    def select(
        cls,
        desc: GatherBackwardDescriptor,
        prefer: PlanPreference = ...,
        device: str = "cpu",
    ) -> GatherBackwardPlan: ...
    def can_implement(  # type: ignore[override]
        self,
        *,
        d_output: T,
        indices: SupportsDLPack,
        dx: T | None = None,
        workspace: Any = None,
        stream: Any = None,
    ) -> None: ...
    def run(  # type: ignore[override]
        self,
        *,
        d_output: T,
        indices: SupportsDLPack,
        dx: T | None = None,
        workspace: Any = None,
        stream: Any = None,
    ) -> T: ...

class ScatterAddDescriptor(Descriptor):
    shape: tuple[int, ...]
    axis: int
    size: int
    element: ElementKind
    bounds: Bounds
    def __init__(
        self,
        *,
        shape: Iterable[SupportsIndex],
        axis: SupportsIndex,
        size: SupportsIndex,
        element: ElementKind | Literal["f16", "bf16", "f32", "f64"] | DType,
        bounds: Bounds | Literal["skip", "raise"] = ...,
    ) -> None: ...

class ScatterAddPlan(Plan[ScatterAddDescriptor]):
    op: ClassVar[Op]
    @classmethod
    def select(
        cls,
        desc: ScatterAddDescriptor,
        prefer: PlanPreference = ...,
        device: str = "cpu",
    ) -> ScatterAddPlan: ...
    def can_implement(  # type: ignore[override]
        self,
        *,
        x: T,
        indices: SupportsDLPack,
        output: T | None = None,
        workspace: Any = None,
        stream: Any = None,
    ) -> None: ...
    def run(  # type: ignore[override]
        self,
        *,
        x: T,
        indices: SupportsDLPack,
        output: T | None = None,
        workspace: Any = None,
        stream: Any = None,
    ) -> T: ...

class ScatterAddBackwardDescriptor(Descriptor):
    shape: tuple[int, ...]
    axis: int
    size: int
    element: ElementKind
    bounds: Bounds
    def __init__(
        self,
        *,
        shape: Iterable[SupportsIndex],
        axis: SupportsIndex,
        size: SupportsIndex,
        element: ElementKind | Literal["f16", "bf16", "f32", "f64"] | DType,
        bounds: Bounds | Literal["skip", "raise"] = ...,
    ) -> None: ...

class ScatterAddBackwardPlan(Plan[ScatterAddBackwardDescriptor]):
    op: ClassVar[Op]
    @classmethod
    def select(
        cls,
        desc: ScatterAddBackwardDescriptor,
        prefer: PlanPreference = ...,
        device: str = "cpu",
    ) -> ScatterAddBackwardPlan: ...
    def can_implement(  # type: ignore[override]
        self,
        *,
        d_output: T,
        indices: SupportsDLPack,
        dx: T | None = None,
        workspace: Any = None,
        stream: Any = None,
    ) -> None: ...
    def run(  # type: ignore[override]
        self,
        *,
        d_output: T,
        indices: SupportsDLPack,
        dx: T | None = None,
        workspace: Any = None,
        stream: Any = None,
    ) -> T: ...

class IndexSelectDescriptor(Descriptor):
    shape: tuple[int, ...]
    axis: int
    size: int
    element: ElementKind
    bounds: Bounds
    def __init__(
        self,
        *,
        shape: Iterable[SupportsIndex],
        axis: SupportsIndex,
        size: SupportsIndex,
        element: ElementKind | Literal["f16", "bf16", "f32", "f64"] | DType,
        bounds: Bounds | Literal["skip", "raise"] = ...,
    ) -> None: ...

class IndexSelectPlan(Plan[IndexSelectDescriptor]):
    op: ClassVar[Op]
    @classmethod
    def select(
        cls,
        desc: IndexSelectDescriptor,
        prefer: PlanPreference = ...,
        device: str = "cpu",
    ) -> IndexSelectPlan: ...
    def can_implement(  # type: ignore[override]
        self,
        *,
        x: T,
        indices: SupportsDLPack,
        output: T | None = None,
        workspace: Any = None,
        stream: Any = None,
    ) -> None: ...
    def run(  # type: ignore[override]
        self,
        *,
        x: T,
        indices: SupportsDLPack,
        output: T | None = None,
        workspace: Any = None,
        stream: Any = None,
    ) -> T: ...

class IndexSelectBackwardDescriptor(Descriptor):
    shape: tuple[int, ...]
    axis: int
    size: int
    element: ElementKind
    bounds: Bounds
    def __init__(
        self,
        *,
        shape: Iterable[SupportsIndex],
        axis: SupportsIndex,
        size: SupportsIndex,
        element: ElementKind | Literal["f16", "bf16", "f32", "f64"] | DType,
        bounds: Bounds | Literal["skip", "raise"] = ...,
    ) -> None: ...

class IndexSelectBackwardPlan(Plan[IndexSelectBackwardDescriptor]):
    op: ClassVar[Op]
    @classmethod
    def select(
        cls,
        desc: IndexSelectBackwardDescriptor,
        prefer: PlanPreference = ...,
        device: str = "cpu",
    ) -> IndexSelectBackwardPlan: ...
    def can_implement(  # type: ignore[override]
        self,
        *,
        d_output: T,
        indices: SupportsDLPack,
        dx: T | None = None,
        workspace: Any = None,
        stream: Any = None,
    ) -> None: ...
    def run(  # type: ignore[override]
        self,
        *,
        d_output: T,
        indices: SupportsDLPack,
        dx: T | None = None,
        workspace: Any = None,
        stream: Any = None,
    ) -> T: ...

class IndexAddDescriptor(Descriptor):
    shape: tuple[int, ...]
    axis: int
    size: int
    element: ElementKind
    bounds: Bounds
    def __init__(
        self,
        *,
        shape: Iterable[SupportsIndex],
        axis: SupportsIndex,
        size: SupportsIndex,
        element: ElementKind | Literal["f16", "bf16", "f32", "f64"] | DType,
        bounds: Bounds | Literal["skip", "raise"] = ...,
    ) -> None: ...

class IndexAddPlan(Plan[IndexAddDescriptor]):
    op: ClassVar[Op]
    @classmethod
    def select(
        cls,
        desc: IndexAddDescriptor,
        prefer: PlanPreference = ...,
        device: str = "cpu",
    ) -> IndexAddPlan: ...
    def can_implement(  # type: ignore[override]
        self,
        *,
        x: T,
        indices: SupportsDLPack,
        output: T | None = None,
        workspace: Any = None,
        stream: Any = None,
    ) -> None: ...
    def run(  # type: ignore[override]
        self,
        *,
        x: T,
        indices: SupportsDLPack,
        output: T | None = None,
        workspace: Any = None,
        stream: Any = None,
    ) -> T: ...

class IndexAddBackwardDescriptor(Descriptor):
    shape: tuple[int, ...]
    axis: int
    size: int
    element: ElementKind
    bounds: Bounds
    def __init__(
        self,
        *,
        shape: Iterable[SupportsIndex],
        axis: SupportsIndex,
        size: SupportsIndex,
        element: ElementKind | Literal["f16", "bf16", "f32", "f64"] | DType,
        bounds: Bounds | Literal["skip", "raise"] = ...,
    ) -> None: ...

class IndexAddBackwardPlan(Plan[IndexAddBackwardDescriptor]):
    op: ClassVar[Op]
    @classmethod
    def select(
        cls,
        desc: IndexAddBackwardDescriptor,
        prefer: PlanPreference = ...,
        device: str = "cpu",
    ) -> IndexAddBackwardPlan: ...
    def can_implement(  # type: ignore[override]
        self,
        *,
        d_output: T,
        indices: SupportsDLPack,
        dx: T | None = None,
        workspace: Any = None,
        stream: Any = None,
    ) -> None: ...
    def run(  # type: ignore[override]
        self,
        *,
        d_output: T,
        indices: SupportsDLPack,
        dx: T | None = None,
        workspace: Any = None,
        stream: Any = None,
    ) -> T: ...

class LinearScanDescriptor(Descriptor):
    input_shape: tuple[int, ...]
    scan_axis: int
    reverse: bool
    element: ElementKind
    exclusive: bool
    def __init__(
        self,
        *,
        input_shape: Iterable[SupportsIndex],
        scan_axis: SupportsIndex,
        reverse: bool = False,
        element: ElementKind | Literal["f16", "bf16", "f32", "f64"] | DType,
        exclusive: bool = False,
    ) -> None: ...

class LinearScanPlan(Plan[LinearScanDescriptor]):
    op: ClassVar[Op]
    @classmethod
    def select(
        cls,
        desc: LinearScanDescriptor,
        prefer: PlanPreference = ...,
        device: str = "cpu",
    ) -> LinearScanPlan: ...
    def can_implement(  # type: ignore[override]
        self,
        *,
        a: T,
        b: T,
        initial: T | None = None,
        h: T | None = None,
        workspace: Any = None,
        stream: Any = None,
    ) -> None: ...
    def run(  # type: ignore[override]
        self,
        *,
        a: T,
        b: T,
        initial: T | None = None,
        h: T | None = None,
        workspace: Any = None,
        stream: Any = None,
    ) -> T: ...

class LinearScanBackwardDescriptor(Descriptor):
    input_shape: tuple[int, ...]
    scan_axis: int
    reverse: bool
    element: ElementKind
    exclusive: bool
    def __init__(
        self,
        *,
        input_shape: Iterable[SupportsIndex],
        scan_axis: SupportsIndex,
        reverse: bool = False,
        element: ElementKind | Literal["f16", "bf16", "f32", "f64"] | DType,
        exclusive: bool = False,
    ) -> None: ...

class LinearScanBackwardPlan(Plan[LinearScanBackwardDescriptor]):
    op: ClassVar[Op]
    @classmethod
    def select(
        cls,
        desc: LinearScanBackwardDescriptor,
        prefer: PlanPreference = ...,
        device: str = "cpu",
    ) -> LinearScanBackwardPlan: ...
    def can_implement(  # type: ignore[override]
        self,
        *,
        dh: T,
        a: T,
        h: T,
        initial: T | None = None,
        da: T | None = None,
        db: T | None = None,
        d_initial: T | None = None,
        workspace: Any = None,
        stream: Any = None,
    ) -> None: ...
    def run(  # type: ignore[override]
        self,
        *,
        dh: T,
        a: T,
        h: T,
        initial: T | None = None,
        da: T | None = None,
        db: T | None = None,
        d_initial: T | None = None,
        workspace: Any = None,
        stream: Any = None,
    ) -> tuple[T, T, T]: ...

class ScanDescriptor(Descriptor):
    kind: ScanKind
    input_shape: tuple[int, ...]
    scan_axis: int
    reverse: bool
    element: ElementKind
    exclusive: bool
    def __init__(
        self,
        *,
        kind: ScanKind | Literal["cumsum", "cumprod", "cummax", "cummin", "logcumsumexp"],
        input_shape: Iterable[SupportsIndex],
        scan_axis: SupportsIndex,
        reverse: bool = False,
        element: ElementKind | Literal["f16", "bf16", "f32", "f64"] | DType,
        exclusive: bool = False,
    ) -> None: ...

class ScanPlan(Plan[ScanDescriptor]):
    op: ClassVar[Op]
    @classmethod
    def select(
        cls,
        desc: ScanDescriptor,
        prefer: PlanPreference = ...,
        device: str = "cpu",
    ) -> ScanPlan: ...
    def can_implement(  # type: ignore[override]
        self,
        *,
        x: T,
        y: T | None = None,
        workspace: Any = None,
        stream: Any = None,
    ) -> None: ...
    def run(  # type: ignore[override]
        self,
        *,
        x: T,
        y: T | None = None,
        workspace: Any = None,
        stream: Any = None,
    ) -> T: ...

class ScanBackwardDescriptor(Descriptor):
    kind: ScanKind
    input_shape: tuple[int, ...]
    scan_axis: int
    reverse: bool
    element: ElementKind
    ties: Ties
    exclusive: bool
    def __init__(
        self,
        *,
        kind: ScanKind | Literal["cumsum", "cumprod", "cummax", "cummin", "logcumsumexp"],
        input_shape: Iterable[SupportsIndex],
        scan_axis: SupportsIndex,
        reverse: bool = False,
        element: ElementKind | Literal["f16", "bf16", "f32", "f64"] | DType,
        ties: Ties | Literal["first", "last"] = ...,
        exclusive: bool = False,
    ) -> None: ...

class ScanBackwardPlan(Plan[ScanBackwardDescriptor]):
    op: ClassVar[Op]
    @classmethod
    def select(
        cls,
        desc: ScanBackwardDescriptor,
        prefer: PlanPreference = ...,
        device: str = "cpu",
    ) -> ScanBackwardPlan: ...
    def can_implement(  # type: ignore[override]
        self,
        *,
        dy: T,
        x: T | None = None,
        y: T | None = None,
        dx: T | None = None,
        workspace: Any = None,
        stream: Any = None,
    ) -> None: ...
    def run(  # type: ignore[override]
        self,
        *,
        dy: T,
        x: T | None = None,
        y: T | None = None,
        dx: T | None = None,
        workspace: Any = None,
        stream: Any = None,
    ) -> T: ...

class ScanIndicesDescriptor(Descriptor):
    kind: ExtremeKind
    input_shape: tuple[int, ...]
    scan_axis: int
    reverse: bool
    ties: Ties
    element: ElementKind
    def __init__(
        self,
        *,
        kind: ExtremeKind | Literal["cummax", "cummin"],
        input_shape: Iterable[SupportsIndex],
        scan_axis: SupportsIndex,
        reverse: bool = False,
        ties: Ties | Literal["first", "last"] = ...,
        element: ElementKind | Literal["f16", "bf16", "f32", "f64"] | DType,
    ) -> None: ...

class ScanIndicesPlan(Plan[ScanIndicesDescriptor]):
    op: ClassVar[Op]
    @classmethod
    def select(
        cls,
        desc: ScanIndicesDescriptor,
        prefer: PlanPreference = ...,
        device: str = "cpu",
    ) -> ScanIndicesPlan: ...
    def can_implement(  # type: ignore[override]
        self,
        *,
        x: T,
        indices: T | None = None,
        workspace: Any = None,
        stream: Any = None,
    ) -> None: ...
    def run(  # type: ignore[override]
        self,
        *,
        x: T,
        indices: T | None = None,
        workspace: Any = None,
        stream: Any = None,
    ) -> T: ...

class ScanWithIndicesDescriptor(Descriptor):
    kind: ExtremeKind
    input_shape: tuple[int, ...]
    scan_axis: int
    reverse: bool
    ties: Ties
    element: ElementKind
    def __init__(
        self,
        *,
        kind: ExtremeKind | Literal["cummax", "cummin"],
        input_shape: Iterable[SupportsIndex],
        scan_axis: SupportsIndex,
        reverse: bool = False,
        ties: Ties | Literal["first", "last"] = ...,
        element: ElementKind | Literal["f16", "bf16", "f32", "f64"] | DType,
    ) -> None: ...

class ScanWithIndicesPlan(Plan[ScanWithIndicesDescriptor]):
    op: ClassVar[Op]
    @classmethod
    def select(
        cls,
        desc: ScanWithIndicesDescriptor,
        prefer: PlanPreference = ...,
        device: str = "cpu",
    ) -> ScanWithIndicesPlan: ...
    def can_implement(  # type: ignore[override]
        self,
        *,
        x: T,
        y: T | None = None,
        indices: T | None = None,
        workspace: Any = None,
        stream: Any = None,
    ) -> None: ...
    def run(  # type: ignore[override]
        self,
        *,
        x: T,
        y: T | None = None,
        indices: T | None = None,
        workspace: Any = None,
        stream: Any = None,
    ) -> tuple[T, T]: ...

class ScanPartDescriptor(Descriptor):
    kind: ScanKind
    input_shape: tuple[int, ...]
    scan_axis: int
    reverse: bool
    element: ElementKind
    def __init__(
        self,
        *,
        kind: ScanKind | Literal["cumsum", "cumprod", "cummax", "cummin", "logcumsumexp"],
        input_shape: Iterable[SupportsIndex],
        scan_axis: SupportsIndex,
        reverse: bool = False,
        element: ElementKind | Literal["f16", "bf16", "f32", "f64"] | DType,
    ) -> None: ...

class ScanPartPlan(Plan[ScanPartDescriptor]):
    op: ClassVar[Op]
    @classmethod
    def select(
        cls,
        desc: ScanPartDescriptor,
        prefer: PlanPreference = ...,
        device: str = "cpu",
    ) -> ScanPartPlan: ...
    def can_implement(  # type: ignore[override]
        self,
        *,
        x: T,
        before: T | None = None,
        carry: T | None = None,
        y: T | None = None,
        workspace: Any = None,
        stream: Any = None,
    ) -> None: ...
    def run(  # type: ignore[override]
        self,
        *,
        x: T,
        before: T | None = None,
        carry: T | None = None,
        y: T | None = None,
        workspace: Any = None,
        stream: Any = None,
    ) -> T: ...

class ScanPartTotalDescriptor(Descriptor):
    kind: ScanKind
    input_shape: tuple[int, ...]
    scan_axis: int
    reverse: bool
    element: ElementKind
    def __init__(
        self,
        *,
        kind: ScanKind | Literal["cumsum", "cumprod", "cummax", "cummin", "logcumsumexp"],
        input_shape: Iterable[SupportsIndex],
        scan_axis: SupportsIndex,
        reverse: bool = False,
        element: ElementKind | Literal["f16", "bf16", "f32", "f64"] | DType,
    ) -> None: ...

class ScanPartTotalPlan(Plan[ScanPartTotalDescriptor]):
    op: ClassVar[Op]
    @classmethod
    def select(
        cls,
        desc: ScanPartTotalDescriptor,
        prefer: PlanPreference = ...,
        device: str = "cpu",
    ) -> ScanPartTotalPlan: ...
    def can_implement(  # type: ignore[override]
        self,
        *,
        x: T,
        before: T | None = None,
        total: T | None = None,
        gain: T | None = None,
        workspace: Any = None,
        stream: Any = None,
    ) -> None: ...
    def run(  # type: ignore[override]
        self,
        *,
        x: T,
        before: T | None = None,
        total: T | None = None,
        gain: T | None = None,
        workspace: Any = None,
        stream: Any = None,
    ) -> tuple[T, T]: ...

class ScanPartGradientDescriptor(Descriptor):
    kind: ScanKind
    input_shape: tuple[int, ...]
    scan_axis: int
    reverse: bool
    element: ElementKind
    ties: Ties
    def __init__(
        self,
        *,
        kind: ScanKind | Literal["cumsum", "cumprod", "cummax", "cummin", "logcumsumexp"],
        input_shape: Iterable[SupportsIndex],
        scan_axis: SupportsIndex,
        reverse: bool = False,
        element: ElementKind | Literal["f16", "bf16", "f32", "f64"] | DType,
        ties: Ties | Literal["first", "last"] = ...,
    ) -> None: ...

class ScanPartGradientPlan(Plan[ScanPartGradientDescriptor]):
    op: ClassVar[Op]
    @classmethod
    def select(
        cls,
        desc: ScanPartGradientDescriptor,
        prefer: PlanPreference = ...,
        device: str = "cpu",
    ) -> ScanPartGradientPlan: ...
    def can_implement(  # type: ignore[override]
        self,
        *,
        dy: T,
        x: T,
        y: T,
        before: T | None = None,
        behind: T | None = None,
        carry: T | None = None,
        dx: T | None = None,
        workspace: Any = None,
        stream: Any = None,
    ) -> None: ...
    def run(  # type: ignore[override]
        self,
        *,
        dy: T,
        x: T,
        y: T,
        before: T | None = None,
        behind: T | None = None,
        carry: T | None = None,
        dx: T | None = None,
        workspace: Any = None,
        stream: Any = None,
    ) -> T: ...

class ScanPartGradientTotalDescriptor(Descriptor):
    kind: ScanKind
    input_shape: tuple[int, ...]
    scan_axis: int
    reverse: bool
    element: ElementKind
    ties: Ties
    def __init__(
        self,
        *,
        kind: ScanKind | Literal["cumsum", "cumprod", "cummax", "cummin", "logcumsumexp"],
        input_shape: Iterable[SupportsIndex],
        scan_axis: SupportsIndex,
        reverse: bool = False,
        element: ElementKind | Literal["f16", "bf16", "f32", "f64"] | DType,
        ties: Ties | Literal["first", "last"] = ...,
    ) -> None: ...

class ScanPartGradientTotalPlan(Plan[ScanPartGradientTotalDescriptor]):
    op: ClassVar[Op]
    @classmethod
    def select(
        cls,
        desc: ScanPartGradientTotalDescriptor,
        prefer: PlanPreference = ...,
        device: str = "cpu",
    ) -> ScanPartGradientTotalPlan: ...
    def can_implement(  # type: ignore[override]
        self,
        *,
        dy: T,
        x: T,
        y: T,
        before: T | None = None,
        total: T | None = None,
        gain: T | None = None,
        exponent: T | None = None,
        workspace: Any = None,
        stream: Any = None,
    ) -> None: ...
    def run(  # type: ignore[override]
        self,
        *,
        dy: T,
        x: T,
        y: T,
        before: T | None = None,
        total: T | None = None,
        gain: T | None = None,
        exponent: T | None = None,
        workspace: Any = None,
        stream: Any = None,
    ) -> tuple[T, T, T]: ...

class ScanPartFoldDescriptor(Descriptor):
    kind: ScanKind
    input_shape: tuple[int, ...]
    scan_axis: int
    reverse: bool
    element: ElementKind
    backward: bool
    def __init__(
        self,
        *,
        kind: ScanKind | Literal["cumsum", "cumprod", "cummax", "cummin", "logcumsumexp"],
        input_shape: Iterable[SupportsIndex],
        scan_axis: SupportsIndex,
        reverse: bool = False,
        element: ElementKind | Literal["f16", "bf16", "f32", "f64"] | DType,
        backward: bool = False,
    ) -> None: ...

class ScanPartFoldPlan(Plan[ScanPartFoldDescriptor]):
    op: ClassVar[Op]
    @classmethod
    def select(
        cls,
        desc: ScanPartFoldDescriptor,
        prefer: PlanPreference = ...,
        device: str = "cpu",
    ) -> ScanPartFoldPlan: ...
    def can_implement(  # type: ignore[override]
        self,
        *,
        total: T,
        gain: T,
        exponent: T,
        carry: T | None = None,
        workspace: Any = None,
        stream: Any = None,
    ) -> None: ...
    def run(  # type: ignore[override]
        self,
        *,
        total: T,
        gain: T,
        exponent: T,
        carry: T | None = None,
        workspace: Any = None,
        stream: Any = None,
    ) -> T: ...

class ScatterReduceDescriptor(Descriptor):
    shape: tuple[int, ...]
    axis: int
    size: int
    element: ElementKind
    reduce: ScatterKind
    include_self: bool
    bounds: Bounds
    def __init__(
        self,
        *,
        shape: Iterable[SupportsIndex],
        axis: SupportsIndex,
        size: SupportsIndex,
        element: ElementKind | Literal["f16", "bf16", "f32", "f64"] | DType,
        reduce: ScatterKind | Literal["sum", "mean", "prod", "amax", "amin"] = ...,
        include_self: bool = True,
        bounds: Bounds | Literal["skip", "raise"] = ...,
    ) -> None: ...

class ScatterReducePlan(Plan[ScatterReduceDescriptor]):
    op: ClassVar[Op]
    @classmethod
    def select(
        cls,
        desc: ScatterReduceDescriptor,
        prefer: PlanPreference = ...,
        device: str = "cpu",
    ) -> ScatterReducePlan: ...
    def can_implement(  # type: ignore[override]
        self,
        *,
        x: T,
        indices: SupportsDLPack,
        initial: T | None = None,
        output: T | None = None,
        workspace: Any = None,
        stream: Any = None,
    ) -> None: ...
    def run(  # type: ignore[override]
        self,
        *,
        x: T,
        indices: SupportsDLPack,
        initial: T | None = None,
        output: T | None = None,
        workspace: Any = None,
        stream: Any = None,
    ) -> T: ...

class ScatterReduceBackwardDescriptor(Descriptor):
    shape: tuple[int, ...]
    axis: int
    size: int
    element: ElementKind
    reduce: ScatterKind
    include_self: bool
    ties: SegmentTies
    bounds: Bounds
    def __init__(
        self,
        *,
        shape: Iterable[SupportsIndex],
        axis: SupportsIndex,
        size: SupportsIndex,
        element: ElementKind | Literal["f16", "bf16", "f32", "f64"] | DType,
        reduce: ScatterKind | Literal["sum", "mean", "prod", "amax", "amin"] = ...,
        include_self: bool = True,
        ties: SegmentTies | Literal["first", "last", "share"] = ...,
        bounds: Bounds | Literal["skip", "raise"] = ...,
    ) -> None: ...

class ScatterReduceBackwardPlan(Plan[ScatterReduceBackwardDescriptor]):
    op: ClassVar[Op]
    @classmethod
    def select(
        cls,
        desc: ScatterReduceBackwardDescriptor,
        prefer: PlanPreference = ...,
        device: str = "cpu",
    ) -> ScatterReduceBackwardPlan: ...
    def can_implement(  # type: ignore[override]
        self,
        *,
        d_output: T,
        x: T,
        output: T,
        indices: SupportsDLPack,
        initial: T | None = None,
        dx: T | None = None,
        d_initial: T | None = None,
        workspace: Any = None,
        stream: Any = None,
    ) -> None: ...
    def run(  # type: ignore[override]
        self,
        *,
        d_output: T,
        x: T,
        output: T,
        indices: SupportsDLPack,
        initial: T | None = None,
        dx: T | None = None,
        d_initial: T | None = None,
        workspace: Any = None,
        stream: Any = None,
    ) -> tuple[T, T]: ...

class SegmentSumDescriptor(Descriptor):
    num_inputs: int
    embedding_dim: int
    num_segments: int
    element: ElementKind
    bounds: Bounds
    def __init__(
        self,
        *,
        num_inputs: SupportsIndex,
        embedding_dim: SupportsIndex,
        num_segments: SupportsIndex,
        element: ElementKind | Literal["f16", "bf16", "f32", "f64"] | DType,
        bounds: Bounds | Literal["skip", "raise"] = ...,
    ) -> None: ...

class SegmentSumPlan(Plan[SegmentSumDescriptor]):
    op: ClassVar[Op]
    @classmethod
    def select(
        cls,
        desc: SegmentSumDescriptor,
        prefer: PlanPreference = ...,
        device: str = "cpu",
    ) -> SegmentSumPlan: ...
    def can_implement(  # type: ignore[override]
        self,
        *,
        input: T,
        segment_ids: SupportsDLPack,
        output: T | None = None,
        workspace: Any = None,
        stream: Any = None,
    ) -> None: ...
    def run(  # type: ignore[override]
        self,
        *,
        input: T,
        segment_ids: SupportsDLPack,
        output: T | None = None,
        workspace: Any = None,
        stream: Any = None,
    ) -> T: ...

class UnsortedSegmentSumDescriptor(Descriptor):
    num_inputs: int
    embedding_dim: int
    num_segments: int
    element: ElementKind
    bounds: Bounds
    def __init__(
        self,
        *,
        num_inputs: SupportsIndex,
        embedding_dim: SupportsIndex,
        num_segments: SupportsIndex,
        element: ElementKind | Literal["f16", "bf16", "f32", "f64"] | DType,
        bounds: Bounds | Literal["skip", "raise"] = ...,
    ) -> None: ...

class UnsortedSegmentSumPlan(Plan[UnsortedSegmentSumDescriptor]):
    op: ClassVar[Op]
    @classmethod
    def select(
        cls,
        desc: UnsortedSegmentSumDescriptor,
        prefer: PlanPreference = ...,
        device: str = "cpu",
    ) -> UnsortedSegmentSumPlan: ...
    def can_implement(  # type: ignore[override]
        self,
        *,
        input: T,
        segment_ids: SupportsDLPack,
        output: T | None = None,
        workspace: Any = None,
        stream: Any = None,
    ) -> None: ...
    def run(  # type: ignore[override]
        self,
        *,
        input: T,
        segment_ids: SupportsDLPack,
        output: T | None = None,
        workspace: Any = None,
        stream: Any = None,
    ) -> T: ...

class SegmentSumBackwardDescriptor(Descriptor):
    num_inputs: int
    embedding_dim: int
    num_segments: int
    element: ElementKind
    bounds: Bounds
    def __init__(
        self,
        *,
        num_inputs: SupportsIndex,
        embedding_dim: SupportsIndex,
        num_segments: SupportsIndex,
        element: ElementKind | Literal["f16", "bf16", "f32", "f64"] | DType,
        bounds: Bounds | Literal["skip", "raise"] = ...,
    ) -> None: ...

class SegmentSumBackwardPlan(Plan[SegmentSumBackwardDescriptor]):
    op: ClassVar[Op]
    @classmethod
    def select(
        cls,
        desc: SegmentSumBackwardDescriptor,
        prefer: PlanPreference = ...,
        device: str = "cpu",
    ) -> SegmentSumBackwardPlan: ...
    def can_implement(  # type: ignore[override]
        self,
        *,
        d_output: T,
        segment_ids: SupportsDLPack,
        d_input: T | None = None,
        workspace: Any = None,
        stream: Any = None,
    ) -> None: ...
    def run(  # type: ignore[override]
        self,
        *,
        d_output: T,
        segment_ids: SupportsDLPack,
        d_input: T | None = None,
        workspace: Any = None,
        stream: Any = None,
    ) -> T: ...

class UnsortedSegmentReduceDescriptor(Descriptor):
    kind: SegmentKind
    num_inputs: int
    embedding_dim: int
    num_segments: int
    element: ElementKind
    fill: float
    bounds: Bounds
    def __init__(
        self,
        *,
        kind: SegmentKind | Literal["mean", "max", "min", "prod", "logsumexp"],
        num_inputs: SupportsIndex,
        embedding_dim: SupportsIndex,
        num_segments: SupportsIndex,
        element: ElementKind | Literal["f16", "bf16", "f32", "f64"] | DType,
        fill: SupportsFloat | None = None,
        bounds: Bounds | Literal["skip", "raise"] = ...,
    ) -> None: ...

class UnsortedSegmentReducePlan(Plan[UnsortedSegmentReduceDescriptor]):
    op: ClassVar[Op]
    @classmethod
    def select(
        cls,
        desc: UnsortedSegmentReduceDescriptor,
        prefer: PlanPreference = ...,
        device: str = "cpu",
    ) -> UnsortedSegmentReducePlan: ...
    def can_implement(  # type: ignore[override]
        self,
        *,
        input: T,
        segment_ids: SupportsDLPack,
        output: T | None = None,
        workspace: Any = None,
        stream: Any = None,
    ) -> None: ...
    def run(  # type: ignore[override]
        self,
        *,
        input: T,
        segment_ids: SupportsDLPack,
        output: T | None = None,
        workspace: Any = None,
        stream: Any = None,
    ) -> T: ...

class SegmentReduceDescriptor(Descriptor):
    kind: SegmentKind
    num_inputs: int
    embedding_dim: int
    num_segments: int
    element: ElementKind
    fill: float
    bounds: Bounds
    def __init__(
        self,
        *,
        kind: SegmentKind | Literal["mean", "max", "min", "prod", "logsumexp"],
        num_inputs: SupportsIndex,
        embedding_dim: SupportsIndex,
        num_segments: SupportsIndex,
        element: ElementKind | Literal["f16", "bf16", "f32", "f64"] | DType,
        fill: SupportsFloat | None = None,
        bounds: Bounds | Literal["skip", "raise"] = ...,
    ) -> None: ...

class SegmentReducePlan(Plan[SegmentReduceDescriptor]):
    op: ClassVar[Op]
    @classmethod
    def select(
        cls,
        desc: SegmentReduceDescriptor,
        prefer: PlanPreference = ...,
        device: str = "cpu",
    ) -> SegmentReducePlan: ...
    def can_implement(  # type: ignore[override]
        self,
        *,
        input: T,
        segment_ids: SupportsDLPack,
        output: T | None = None,
        workspace: Any = None,
        stream: Any = None,
    ) -> None: ...
    def run(  # type: ignore[override]
        self,
        *,
        input: T,
        segment_ids: SupportsDLPack,
        output: T | None = None,
        workspace: Any = None,
        stream: Any = None,
    ) -> T: ...

class SegmentReduceBackwardDescriptor(Descriptor):
    kind: SegmentKind
    num_inputs: int
    embedding_dim: int
    num_segments: int
    element: ElementKind
    ties: SegmentTies
    bounds: Bounds
    def __init__(
        self,
        *,
        kind: SegmentKind | Literal["mean", "max", "min", "prod", "logsumexp"],
        num_inputs: SupportsIndex,
        embedding_dim: SupportsIndex,
        num_segments: SupportsIndex,
        element: ElementKind | Literal["f16", "bf16", "f32", "f64"] | DType,
        ties: SegmentTies | Literal["first", "last", "share"] = ...,
        bounds: Bounds | Literal["skip", "raise"] = ...,
    ) -> None: ...

class SegmentReduceBackwardPlan(Plan[SegmentReduceBackwardDescriptor]):
    op: ClassVar[Op]
    @classmethod
    def select(
        cls,
        desc: SegmentReduceBackwardDescriptor,
        prefer: PlanPreference = ...,
        device: str = "cpu",
    ) -> SegmentReduceBackwardPlan: ...
    def can_implement(  # type: ignore[override]
        self,
        *,
        d_output: T,
        segment_ids: SupportsDLPack,
        input: T | None = None,
        output: T | None = None,
        d_input: T | None = None,
        workspace: Any = None,
        stream: Any = None,
    ) -> None: ...
    def run(  # type: ignore[override]
        self,
        *,
        d_output: T,
        segment_ids: SupportsDLPack,
        input: T | None = None,
        output: T | None = None,
        d_input: T | None = None,
        workspace: Any = None,
        stream: Any = None,
    ) -> T: ...

class UnsortedSegmentSoftmaxDescriptor(Descriptor):
    kind: SoftmaxKind
    num_inputs: int
    embedding_dim: int
    num_segments: int
    element: ElementKind
    bounds: Bounds
    def __init__(
        self,
        *,
        kind: SoftmaxKind | Literal["softmax", "log_softmax"],
        num_inputs: SupportsIndex,
        embedding_dim: SupportsIndex,
        num_segments: SupportsIndex,
        element: ElementKind | Literal["f16", "bf16", "f32", "f64"] | DType,
        bounds: Bounds | Literal["skip", "raise"] = ...,
    ) -> None: ...

class UnsortedSegmentSoftmaxPlan(Plan[UnsortedSegmentSoftmaxDescriptor]):
    op: ClassVar[Op]
    @classmethod
    def select(
        cls,
        desc: UnsortedSegmentSoftmaxDescriptor,
        prefer: PlanPreference = ...,
        device: str = "cpu",
    ) -> UnsortedSegmentSoftmaxPlan: ...
    def can_implement(  # type: ignore[override]
        self,
        *,
        input: T,
        segment_ids: SupportsDLPack,
        output: T | None = None,
        workspace: Any = None,
        stream: Any = None,
    ) -> None: ...
    def run(  # type: ignore[override]
        self,
        *,
        input: T,
        segment_ids: SupportsDLPack,
        output: T | None = None,
        workspace: Any = None,
        stream: Any = None,
    ) -> T: ...

class SegmentSoftmaxDescriptor(Descriptor):
    kind: SoftmaxKind
    num_inputs: int
    embedding_dim: int
    num_segments: int
    element: ElementKind
    bounds: Bounds
    def __init__(
        self,
        *,
        kind: SoftmaxKind | Literal["softmax", "log_softmax"],
        num_inputs: SupportsIndex,
        embedding_dim: SupportsIndex,
        num_segments: SupportsIndex,
        element: ElementKind | Literal["f16", "bf16", "f32", "f64"] | DType,
        bounds: Bounds | Literal["skip", "raise"] = ...,
    ) -> None: ...

class SegmentSoftmaxPlan(Plan[SegmentSoftmaxDescriptor]):
    op: ClassVar[Op]
    @classmethod
    def select(
        cls,
        desc: SegmentSoftmaxDescriptor,
        prefer: PlanPreference = ...,
        device: str = "cpu",
    ) -> SegmentSoftmaxPlan: ...
    def can_implement(  # type: ignore[override]
        self,
        *,
        input: T,
        segment_ids: SupportsDLPack,
        output: T | None = None,
        workspace: Any = None,
        stream: Any = None,
    ) -> None: ...
    def run(  # type: ignore[override]
        self,
        *,
        input: T,
        segment_ids: SupportsDLPack,
        output: T | None = None,
        workspace: Any = None,
        stream: Any = None,
    ) -> T: ...

class SegmentSoftmaxBackwardDescriptor(Descriptor):
    kind: SoftmaxKind
    num_inputs: int
    embedding_dim: int
    num_segments: int
    element: ElementKind
    bounds: Bounds
    def __init__(
        self,
        *,
        kind: SoftmaxKind | Literal["softmax", "log_softmax"],
        num_inputs: SupportsIndex,
        embedding_dim: SupportsIndex,
        num_segments: SupportsIndex,
        element: ElementKind | Literal["f16", "bf16", "f32", "f64"] | DType,
        bounds: Bounds | Literal["skip", "raise"] = ...,
    ) -> None: ...

class SegmentSoftmaxBackwardPlan(Plan[SegmentSoftmaxBackwardDescriptor]):
    op: ClassVar[Op]
    @classmethod
    def select(
        cls,
        desc: SegmentSoftmaxBackwardDescriptor,
        prefer: PlanPreference = ...,
        device: str = "cpu",
    ) -> SegmentSoftmaxBackwardPlan: ...
    def can_implement(  # type: ignore[override]
        self,
        *,
        d_output: T,
        output: T,
        segment_ids: SupportsDLPack,
        d_input: T | None = None,
        workspace: Any = None,
        stream: Any = None,
    ) -> None: ...
    def run(  # type: ignore[override]
        self,
        *,
        d_output: T,
        output: T,
        segment_ids: SupportsDLPack,
        d_input: T | None = None,
        workspace: Any = None,
        stream: Any = None,
    ) -> T: ...

class SegmentCsrDescriptor(Descriptor):
    num_inputs: int
    embedding_dim: int
    num_segments: int
    element: ElementKind
    kind: CsrKind
    fill: float
    def __init__(
        self,
        *,
        num_inputs: SupportsIndex,
        embedding_dim: SupportsIndex,
        num_segments: SupportsIndex,
        element: ElementKind | Literal["f16", "bf16", "f32", "f64"] | DType,
        kind: CsrKind | Literal["sum", "mean", "max", "min", "prod", "logsumexp"],
        fill: SupportsFloat | None = None,
    ) -> None: ...

class SegmentCsrPlan(Plan[SegmentCsrDescriptor]):
    op: ClassVar[Op]
    @classmethod
    def select(
        cls,
        desc: SegmentCsrDescriptor,
        prefer: PlanPreference = ...,
        device: str = "cpu",
    ) -> SegmentCsrPlan: ...
    def can_implement(  # type: ignore[override]
        self,
        *,
        input: T,
        indptr: SupportsDLPack,
        output: T | None = None,
        workspace: Any = None,
        stream: Any = None,
    ) -> None: ...
    def run(  # type: ignore[override]
        self,
        *,
        input: T,
        indptr: SupportsDLPack,
        output: T | None = None,
        workspace: Any = None,
        stream: Any = None,
    ) -> T: ...

class SegmentCsrBackwardDescriptor(Descriptor):
    num_inputs: int
    embedding_dim: int
    num_segments: int
    element: ElementKind
    kind: CsrKind
    ties: SegmentTies
    def __init__(
        self,
        *,
        num_inputs: SupportsIndex,
        embedding_dim: SupportsIndex,
        num_segments: SupportsIndex,
        element: ElementKind | Literal["f16", "bf16", "f32", "f64"] | DType,
        kind: CsrKind | Literal["sum", "mean", "max", "min", "prod", "logsumexp"],
        ties: SegmentTies | Literal["first", "last", "share"] = ...,
    ) -> None: ...

class SegmentCsrBackwardPlan(Plan[SegmentCsrBackwardDescriptor]):
    op: ClassVar[Op]
    @classmethod
    def select(
        cls,
        desc: SegmentCsrBackwardDescriptor,
        prefer: PlanPreference = ...,
        device: str = "cpu",
    ) -> SegmentCsrBackwardPlan: ...
    def can_implement(  # type: ignore[override]
        self,
        *,
        d_output: T,
        indptr: SupportsDLPack,
        input: T | None = None,
        output: T | None = None,
        d_input: T | None = None,
        workspace: Any = None,
        stream: Any = None,
    ) -> None: ...
    def run(  # type: ignore[override]
        self,
        *,
        d_output: T,
        indptr: SupportsDLPack,
        input: T | None = None,
        output: T | None = None,
        d_input: T | None = None,
        workspace: Any = None,
        stream: Any = None,
    ) -> T: ...

class SegmentCsrSoftmaxDescriptor(Descriptor):
    num_inputs: int
    embedding_dim: int
    num_segments: int
    element: ElementKind
    kind: SoftmaxKind
    def __init__(
        self,
        *,
        num_inputs: SupportsIndex,
        embedding_dim: SupportsIndex,
        num_segments: SupportsIndex,
        element: ElementKind | Literal["f16", "bf16", "f32", "f64"] | DType,
        kind: SoftmaxKind | Literal["softmax", "log_softmax"],
    ) -> None: ...

class SegmentCsrSoftmaxPlan(Plan[SegmentCsrSoftmaxDescriptor]):
    op: ClassVar[Op]
    @classmethod
    def select(
        cls,
        desc: SegmentCsrSoftmaxDescriptor,
        prefer: PlanPreference = ...,
        device: str = "cpu",
    ) -> SegmentCsrSoftmaxPlan: ...
    def can_implement(  # type: ignore[override]
        self,
        *,
        input: T,
        indptr: SupportsDLPack,
        output: T | None = None,
        workspace: Any = None,
        stream: Any = None,
    ) -> None: ...
    def run(  # type: ignore[override]
        self,
        *,
        input: T,
        indptr: SupportsDLPack,
        output: T | None = None,
        workspace: Any = None,
        stream: Any = None,
    ) -> T: ...

class SegmentCsrSoftmaxBackwardDescriptor(Descriptor):
    num_inputs: int
    embedding_dim: int
    num_segments: int
    element: ElementKind
    kind: SoftmaxKind
    def __init__(
        self,
        *,
        num_inputs: SupportsIndex,
        embedding_dim: SupportsIndex,
        num_segments: SupportsIndex,
        element: ElementKind | Literal["f16", "bf16", "f32", "f64"] | DType,
        kind: SoftmaxKind | Literal["softmax", "log_softmax"],
    ) -> None: ...

class SegmentCsrSoftmaxBackwardPlan(Plan[SegmentCsrSoftmaxBackwardDescriptor]):
    op: ClassVar[Op]
    @classmethod
    def select(
        cls,
        desc: SegmentCsrSoftmaxBackwardDescriptor,
        prefer: PlanPreference = ...,
        device: str = "cpu",
    ) -> SegmentCsrSoftmaxBackwardPlan: ...
    def can_implement(  # type: ignore[override]
        self,
        *,
        d_output: T,
        output: T,
        indptr: SupportsDLPack,
        d_input: T | None = None,
        workspace: Any = None,
        stream: Any = None,
    ) -> None: ...
    def run(  # type: ignore[override]
        self,
        *,
        d_output: T,
        output: T,
        indptr: SupportsDLPack,
        d_input: T | None = None,
        workspace: Any = None,
        stream: Any = None,
    ) -> T: ...

class UnsortedSegmentWeightedDescriptor(Descriptor):
    kind: WeightedKind
    num_inputs: int
    embedding_dim: int
    num_segments: int
    element: ElementKind
    bounds: Bounds
    def __init__(
        self,
        *,
        kind: WeightedKind | Literal["sum", "mean"],
        num_inputs: SupportsIndex,
        embedding_dim: SupportsIndex,
        num_segments: SupportsIndex,
        element: ElementKind | Literal["f16", "bf16", "f32", "f64"] | DType,
        bounds: Bounds | Literal["skip", "raise"] = ...,
    ) -> None: ...

class UnsortedSegmentWeightedPlan(Plan[UnsortedSegmentWeightedDescriptor]):
    op: ClassVar[Op]
    @classmethod
    def select(
        cls,
        desc: UnsortedSegmentWeightedDescriptor,
        prefer: PlanPreference = ...,
        device: str = "cpu",
    ) -> UnsortedSegmentWeightedPlan: ...
    def can_implement(  # type: ignore[override]
        self,
        *,
        input: T,
        weights: T,
        segment_ids: SupportsDLPack,
        output: T | None = None,
        workspace: Any = None,
        stream: Any = None,
    ) -> None: ...
    def run(  # type: ignore[override]
        self,
        *,
        input: T,
        weights: T,
        segment_ids: SupportsDLPack,
        output: T | None = None,
        workspace: Any = None,
        stream: Any = None,
    ) -> T: ...

class SegmentWeightedDescriptor(Descriptor):
    kind: WeightedKind
    num_inputs: int
    embedding_dim: int
    num_segments: int
    element: ElementKind
    bounds: Bounds
    def __init__(
        self,
        *,
        kind: WeightedKind | Literal["sum", "mean"],
        num_inputs: SupportsIndex,
        embedding_dim: SupportsIndex,
        num_segments: SupportsIndex,
        element: ElementKind | Literal["f16", "bf16", "f32", "f64"] | DType,
        bounds: Bounds | Literal["skip", "raise"] = ...,
    ) -> None: ...

class SegmentWeightedPlan(Plan[SegmentWeightedDescriptor]):
    op: ClassVar[Op]
    @classmethod
    def select(
        cls,
        desc: SegmentWeightedDescriptor,
        prefer: PlanPreference = ...,
        device: str = "cpu",
    ) -> SegmentWeightedPlan: ...
    def can_implement(  # type: ignore[override]
        self,
        *,
        input: T,
        weights: T,
        segment_ids: SupportsDLPack,
        output: T | None = None,
        workspace: Any = None,
        stream: Any = None,
    ) -> None: ...
    def run(  # type: ignore[override]
        self,
        *,
        input: T,
        weights: T,
        segment_ids: SupportsDLPack,
        output: T | None = None,
        workspace: Any = None,
        stream: Any = None,
    ) -> T: ...

class SegmentWeightedBackwardDescriptor(Descriptor):
    kind: WeightedKind
    num_inputs: int
    embedding_dim: int
    num_segments: int
    element: ElementKind
    bounds: Bounds
    def __init__(
        self,
        *,
        kind: WeightedKind | Literal["sum", "mean"],
        num_inputs: SupportsIndex,
        embedding_dim: SupportsIndex,
        num_segments: SupportsIndex,
        element: ElementKind | Literal["f16", "bf16", "f32", "f64"] | DType,
        bounds: Bounds | Literal["skip", "raise"] = ...,
    ) -> None: ...

class SegmentWeightedBackwardPlan(Plan[SegmentWeightedBackwardDescriptor]):
    op: ClassVar[Op]
    @classmethod
    def select(
        cls,
        desc: SegmentWeightedBackwardDescriptor,
        prefer: PlanPreference = ...,
        device: str = "cpu",
    ) -> SegmentWeightedBackwardPlan: ...
    def can_implement(  # type: ignore[override]
        self,
        *,
        d_output: T,
        input: T,
        weights: T,
        segment_ids: SupportsDLPack,
        output: T | None = None,
        d_input: T | None = None,
        d_weights: T | None = None,
        workspace: Any = None,
        stream: Any = None,
    ) -> None: ...
    def run(  # type: ignore[override]
        self,
        *,
        d_output: T,
        input: T,
        weights: T,
        segment_ids: SupportsDLPack,
        output: T | None = None,
        d_input: T | None = None,
        d_weights: T | None = None,
        workspace: Any = None,
        stream: Any = None,
    ) -> tuple[T, T]: ...

class UnsortedSegmentWithIndicesDescriptor(Descriptor):
    kind: SegmentExtremeKind
    num_inputs: int
    embedding_dim: int
    num_segments: int
    element: ElementKind
    fill: float
    ties: Ties
    bounds: Bounds
    def __init__(
        self,
        *,
        kind: SegmentExtremeKind | Literal["max", "min"],
        num_inputs: SupportsIndex,
        embedding_dim: SupportsIndex,
        num_segments: SupportsIndex,
        element: ElementKind | Literal["f16", "bf16", "f32", "f64"] | DType,
        fill: SupportsFloat | None = None,
        ties: Ties | Literal["first", "last"] = ...,
        bounds: Bounds | Literal["skip", "raise"] = ...,
    ) -> None: ...

class UnsortedSegmentWithIndicesPlan(Plan[UnsortedSegmentWithIndicesDescriptor]):
    op: ClassVar[Op]
    @classmethod
    def select(
        cls,
        desc: UnsortedSegmentWithIndicesDescriptor,
        prefer: PlanPreference = ...,
        device: str = "cpu",
    ) -> UnsortedSegmentWithIndicesPlan: ...
    def can_implement(  # type: ignore[override]
        self,
        *,
        input: T,
        segment_ids: SupportsDLPack,
        output: T | None = None,
        indices: T | None = None,
        workspace: Any = None,
        stream: Any = None,
    ) -> None: ...
    def run(  # type: ignore[override]
        self,
        *,
        input: T,
        segment_ids: SupportsDLPack,
        output: T | None = None,
        indices: T | None = None,
        workspace: Any = None,
        stream: Any = None,
    ) -> tuple[T, T]: ...

class SegmentWithIndicesDescriptor(Descriptor):
    kind: SegmentExtremeKind
    num_inputs: int
    embedding_dim: int
    num_segments: int
    element: ElementKind
    fill: float
    ties: Ties
    bounds: Bounds
    def __init__(
        self,
        *,
        kind: SegmentExtremeKind | Literal["max", "min"],
        num_inputs: SupportsIndex,
        embedding_dim: SupportsIndex,
        num_segments: SupportsIndex,
        element: ElementKind | Literal["f16", "bf16", "f32", "f64"] | DType,
        fill: SupportsFloat | None = None,
        ties: Ties | Literal["first", "last"] = ...,
        bounds: Bounds | Literal["skip", "raise"] = ...,
    ) -> None: ...

class SegmentWithIndicesPlan(Plan[SegmentWithIndicesDescriptor]):
    op: ClassVar[Op]
    @classmethod
    def select(
        cls,
        desc: SegmentWithIndicesDescriptor,
        prefer: PlanPreference = ...,
        device: str = "cpu",
    ) -> SegmentWithIndicesPlan: ...
    def can_implement(  # type: ignore[override]
        self,
        *,
        input: T,
        segment_ids: SupportsDLPack,
        output: T | None = None,
        indices: T | None = None,
        workspace: Any = None,
        stream: Any = None,
    ) -> None: ...
    def run(  # type: ignore[override]
        self,
        *,
        input: T,
        segment_ids: SupportsDLPack,
        output: T | None = None,
        indices: T | None = None,
        workspace: Any = None,
        stream: Any = None,
    ) -> tuple[T, T]: ...

class SparsemaxDescriptor(Descriptor):
    input_shape: tuple[int, ...]
    softmax_axis: int
    element: ElementKind
    def __init__(
        self,
        *,
        input_shape: Iterable[SupportsIndex],
        softmax_axis: SupportsIndex,
        element: ElementKind | Literal["f16", "bf16", "f32", "f64"] | DType,
    ) -> None: ...

class SparsemaxPlan(Plan[SparsemaxDescriptor]):
    op: ClassVar[Op]
    @classmethod
    def select(
        cls,
        desc: SparsemaxDescriptor,
        prefer: PlanPreference = ...,
        device: str = "cpu",
    ) -> SparsemaxPlan: ...
    def can_implement(  # type: ignore[override]
        self,
        *,
        x: T,
        y: T | None = None,
        workspace: Any = None,
        stream: Any = None,
    ) -> None: ...
    def run(  # type: ignore[override]
        self,
        *,
        x: T,
        y: T | None = None,
        workspace: Any = None,
        stream: Any = None,
    ) -> T: ...

class SparsemaxBackwardDescriptor(Descriptor):
    input_shape: tuple[int, ...]
    softmax_axis: int
    element: ElementKind
    def __init__(
        self,
        *,
        input_shape: Iterable[SupportsIndex],
        softmax_axis: SupportsIndex,
        element: ElementKind | Literal["f16", "bf16", "f32", "f64"] | DType,
    ) -> None: ...

class SparsemaxBackwardPlan(Plan[SparsemaxBackwardDescriptor]):
    op: ClassVar[Op]
    @classmethod
    def select(
        cls,
        desc: SparsemaxBackwardDescriptor,
        prefer: PlanPreference = ...,
        device: str = "cpu",
    ) -> SparsemaxBackwardPlan: ...
    def can_implement(  # type: ignore[override]
        self,
        *,
        dy: T,
        y: T,
        dx: T | None = None,
        workspace: Any = None,
        stream: Any = None,
    ) -> None: ...
    def run(  # type: ignore[override]
        self,
        *,
        dy: T,
        y: T,
        dx: T | None = None,
        workspace: Any = None,
        stream: Any = None,
    ) -> T: ...
