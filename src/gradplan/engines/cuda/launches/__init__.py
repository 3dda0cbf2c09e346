"""From a problem and the layout of its tensors to launches, one file per family; no Triton here."""
