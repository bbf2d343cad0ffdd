import pytest

from vaswani_hf.hub.names import check_name, check_push


def test_a_folder_and_an_id_are_names_of_models(tmp_path):
    check_name(tmp_path)
    check_name("org/name", revision="main")
    check_push(tmp_path, "org/name")


@pytest.mark.parametrize("name", ["a/b/c", "no--name", "name.git"])
def test_what_the_hub_would_not_take_is_named(tmp_path, name):
    with pytest.raises(ValueError, match=f"'{name}' is not a valid id on the Hub"):
        check_name(name)
    with pytest.raises(ValueError, match="is not a valid name of a repository"):
        check_push(tmp_path, name)


def test_a_revision_is_for_the_hub(tmp_path):
    with pytest.raises(ValueError, match=f"revision=old is for models on the Hub; {tmp_path}"):
        check_name(tmp_path, revision="old")


def test_a_file_and_a_missing_folder_are_named(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match="file is a file; name a model's folder"):
        check_name(tmp_path / "file")
    with pytest.raises(ValueError, match=r"There is no folder .*file"):
        check_push(tmp_path / "file", "org/name")
