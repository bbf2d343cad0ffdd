import pytest

from vaswani_hf.conversion.targets import new_folder


def test_a_folder_appears_whole_or_not_at_all(tmp_path):
    with pytest.raises(KeyError), new_folder(tmp_path / "new") as folder:
        (folder / "file").write_text("half")
        raise KeyError
    assert list(tmp_path.iterdir()) == []
    with new_folder(tmp_path / "in" / "new") as folder:
        (folder / "file").write_text("whole")
        assert not (tmp_path / "in" / "new").exists()
    assert (tmp_path / "in" / "new" / "file").read_text() == "whole"


def test_an_empty_folder_is_taken_and_another_refused(tmp_path):
    (tmp_path / "new").mkdir()
    with new_folder(tmp_path / "new") as folder:
        (folder / "file").touch()
    with pytest.raises(FileExistsError, match="new exists already"), new_folder(tmp_path / "new"):
        pass
