"""Fit deep GPs by Adam on a stochastic objective: one of them, or several of equal shape as one model."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from dgpbench.data.standardise import Regression
from dgpbench.methods.interface import FitSettings, Seeds
from dgpbench.methods.predictor import MixturePredictor, deep_predictor, held_out_score
from dgpbench.training.early_stopping import hold_out
from dgpbench.training.loops import maximise
from dgpbench.training.minibatches import base_seed
from dgpbench.training.monitor import Monitor
from dgpbench.training.settings import AdamSettings
from dgpbench.training.together import maximise_together


class DeepFit(NamedTuple):
    """The parts of a family's fit.

    A model has ``trainable_variables``, and the draws of its objective are arguments:

        normals(R, B, seed, step, dtype) -> standard normals of the paths of a batch
        objective(X [B, D], y [B], N, normals) -> an unbiased draw of the objective

    :param start_model: (all rows, rows fitted to, settings, seeds, monitor) -> the model that training starts at
    :param predictor_of: (model, settings) -> its predictor
    :param optimiser_of: (settings, model) -> an optimiser, as ``loops.maximise`` takes it
    :param diagnostics_of: the trained model -> facts for the record
    """

    start_model: Callable[[Regression, Regression, FitSettings, Seeds, Monitor], Any]
    predictor_of: Callable[[Any, FitSettings], MixturePredictor]
    optimiser_of: Callable[[FitSettings, Any], Any]
    diagnostics_of: Callable[[Any], dict[str, Any]] = lambda _: {}

    def fit(
        self, train: Regression, settings: FitSettings[Any, AdamSettings], seeds: Seeds, monitor: Monitor
    ) -> MixturePredictor:
        """Fit one deep GP."""
        training = settings.training
        fitting, held_out = hold_out(train, training, seeds.holdout)
        model = self.start_model(train, fitting, settings, seeds, monitor)
        N, R, seed = len(fitting.X), training.paths, base_seed(seeds.samples)
        validator = deep_predictor(model, training.validation_samples)
        predictor = self.predictor_of(model, settings)
        predictor.diagnostics["iterations"] = maximise(
            lambda step, X, y, _rows: model.objective(X, y, N, model.normals(R, tf.shape(X)[0], seed, step, X.dtype)),
            model.trainable_variables,
            fitting,
            training,
            seeds.batches,
            monitor,
            predict=predictor.predict,
            optimiser=self.optimiser_of(settings, model),
            score=held_out_score(validator, held_out, seeds.holdout),
        )
        predictor.diagnostics |= self.diagnostics_of(model)
        return predictor

    def fit_together(
        self,
        trains: Sequence[Regression],
        settings: FitSettings[Any, AdamSettings],
        seeds: Sequence[Seeds],
        monitors: Sequence[Monitor],
    ) -> list[MixturePredictor]:
        """Fit a deep GP to each of several tables with equally many rows, in one graph (``training.together``)."""
        training = settings.training
        fits = [
            (train, *hold_out(train, training, own.holdout), own, monitor)
            for train, own, monitor in zip(trains, seeds, monitors, strict=True)
        ]
        models = [self.start_model(train, fitting, settings, own, monitor) for train, fitting, _, own, monitor in fits]
        fittings = [fitting for _, fitting, *_ in fits]
        N, R = len(fittings[0].X), training.paths
        bases = [base_seed(own.samples) for own in seeds]
        iterations = maximise_together(
            models,
            lambda model, X, y, normals: model.objective(X, y, N, normals),
            lambda place, step, rows: models[0].normals(R, rows, bases[place], step, trains[0].X.dtype),
            fittings,
            training,
            [own.batches for own in seeds],
            monitors,
            optimiser_of=lambda model: self.optimiser_of(settings, model),
            scores=[
                held_out_score(deep_predictor(model, training.validation_samples), held_out, own.holdout)
                for model, (_, _, held_out, own, _) in zip(models, fits, strict=True)
            ],
        )
        predictors = [self.predictor_of(model, settings) for model in models]
        for predictor, model, count in zip(predictors, models, iterations, strict=True):
            predictor.diagnostics |= {"iterations": count, "trained_together": len(models)}
            predictor.diagnostics |= self.diagnostics_of(model)
        return predictors
